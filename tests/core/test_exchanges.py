"""The table of exchanges: its formulas, and that nothing else decides by their names."""

import ast
from pathlib import Path

import pytest

from nodewise.core.exchanges import EXCHANGES, Step, exchanges_where

PACKAGE = Path("workflow/nodewise")
ENTRIES = ("NONE", "RING", "STAR", "DEVICES", "SERVER", "AVERAGING", "ALL_GATHER", "ACTIVATIONS")


@pytest.mark.parametrize(
    ("exchange", "options", "nodes", "sent", "busiest", "messages"),
    [
        ("none", {}, 1, 0, 0, 0),
        ("ring", {}, 2, 1200, 1200, 2),
        ("ring", {}, 4, 1800, 1800, 6),
        ("star", {}, 3, (2 + 1 + 1) * 1200 / 3, 2 * 1200, 4),
        ("server", {"servers": 2}, 4, 1200, 2 * 1200, 2),
        ("averaging", {"period": 10}, 3, 160, 160, 0.4),
        ("averaging", {"period": "epoch"}, 3, 16, 16, 0.04),
        ("all-gather", {"method": "float16"}, 3, 1200, 1200, 4),
        ("all-gather", {"method": "top_k"}, 3, None, 800, 4),
        ("activations", {"micro_batches": 4}, 3, None, 1600, 4),
    ],
)
def test_what_nodes_send_in_a_step(exchange, options, nodes, sent, busiest, messages):
    traffic = EXCHANGES[exchange].traffic(Step(nodes, 1200, options, steps_per_epoch=100))
    assert traffic.bytes_sent == (None if sent is None else pytest.approx(sent))
    assert (traffic.busiest_bytes, traffic.messages) == pytest.approx((busiest, messages))


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        (lambda one: one.sums_gradients, ["ring", "star"]),
        (lambda one: one.data_parallel, ["all-gather", "ring", "star"]),
        (lambda one: one.exact, ["activations", "devices", "none", "ring", "star"]),
        (lambda one: not one.synchronous, ["averaging", "server"]),
        (lambda one: not one.plain_alone({}), ["all-gather", "server"]),
        (
            lambda one: not one.plain_alone({"micro_batches": 2}),
            ["activations", "all-gather", "server"],
        ),
    ],
)
def test_which_exchanges_have_a_property(condition, names):
    assert exchanges_where(condition) == names


def compares_names(node: ast.AST) -> bool:
    """Return whether code compares an exchange with a name of one, or lists several names."""
    if not isinstance(node, ast.Compare | ast.Tuple | ast.List | ast.Set):
        return False
    parts = ast.walk(node) if isinstance(node, ast.Compare) else node.elts
    texts = [part.value for part in parts if isinstance(part, ast.Constant)]
    named = {text for text in texts if isinstance(text, str)} & {*EXCHANGES}
    if isinstance(node, ast.Compare):
        return bool(named) and "exchange" in ast.unparse(node)
    return len(named) > 1


def test_no_other_module_decides_by_the_name_of_an_exchange():
    declared = {PACKAGE / "core/exchanges.py", PACKAGE / "results/record.py"}
    for path in sorted(set(PACKAGE.rglob("*.py")) - declared):
        if path.is_relative_to(PACKAGE / "strategies"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            assert not compares_names(node), f"{path}: {ast.unparse(node)}"
            if isinstance(node, ast.ImportFrom) and node.module == "nodewise.core.exchanges":
                assert not {name.name for name in node.names} & {*ENTRIES} - {"RING"}, path

"""The table of exchanges: its formulas, its words, and an exchange of another package."""

import ast
import html
import json
from pathlib import Path

import pytest

import make_records as make
import plugins
from nodewise.core.exchanges import EXCHANGES, Job, exchanges_where

PACKAGE = Path("workflow/nodewise")
ENTRIES = ("NONE", "RING", "STAR", "DEVICES", "SERVER", "AVERAGING", "ALL_GATHER", "ACTIVATIONS")
USE = "import sys, pathlib, core.test_exchanges as t; t.use_exchange(pathlib.Path(sys.argv[1]))"
STRATEGY = """
from my_exchange import ONE_TO_ALL
from nodewise.strategies.declaration import STRATEGIES, Declaration

STRATEGIES.add(
    "one_way", Declaration(module=__name__, title="One way", max_nodes=8, exchange=ONE_TO_ALL)
)
"""


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
        ("all-gather", {"method": "top_k"}, 3, None, 1600, 4),
        ("activations", {"micro_batches": 4}, 3, None, 1600, 4),
    ],
)
def test_what_nodes_send_in_a_step(exchange, options, nodes, sent, busiest, messages):
    traffic = EXCHANGES[exchange].traffic(Job(nodes, 1200, options, steps_per_epoch=100))
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


def use_exchange(out: Path) -> None:
    """Take an exchange of another package from a record to its page; write what comes out."""
    from nodewise.results.record import read_record
    from nodewise.strategies import STRATEGIES
    from rendering import render

    declared = STRATEGIES["one_way"]
    about = {"strategy": "one_way"} | declared.fields(declared.checked({}, 4), "sharded")
    cells = [
        make.cell(batch=batch, n=nodes, **(about if nodes > 1 else {}))
        for batch in (64, 512)
        for nodes in (1, 2, 3, 4)
    ]
    tables = make.write_study(out, [make.record(cell) for cell in cells])
    render(out)
    last = next(path for path in (out / "records").rglob("*.json") if "nodes~4" in str(path))
    print(
        json.dumps(
            {
                "record": read_record(last).exchange.name,
                "table": sorted(set(tables["curves"]["exchange"])),
            }
        )
    )


@pytest.mark.slow
def test_an_exchange_of_another_package(tmp_path):
    for name in ("my_exchange", "my_law"):
        (tmp_path / f"{name}.py").write_text(plugins.example(f"{name}.py"))
    (tmp_path / "one_way").mkdir()
    (tmp_path / "one_way/__init__.py").write_text(STRATEGY)
    plugins.declare(tmp_path, "nodewise.exchanges", "my_exchange")
    plugins.declare(tmp_path, "nodewise.laws", "my_law")
    plugins.declare(tmp_path, "nodewise.strategies", "one_way")
    study = tmp_path / "study"
    found = json.loads(plugins.run(tmp_path, "-c", USE, study).splitlines()[-1])
    assert found == {"record": "one_to_all", "table": ["none", "one_to_all"]}
    predictions = (study / "overhead/predictions.csv").read_text()
    assert "/one_way" in predictions and ",one_to_all," in predictions
    page = html.unescape((study / "docs/strategies/one-way.md").read_text())
    assert "(n − 1)/n · S" in page
    assert f'<data value="{4 * make.PARAMETERS / 2:g}"' in page  # what each of two nodes sends

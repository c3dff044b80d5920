"""Strategies are declared completely; an option that is not allowed is refused with its name."""

import pytest

from nodewise.strategies import STRATEGIES


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_declaration_says_everything_that_its_page_shows(name):
    declared = STRATEGIES[name]
    assert declared.title and declared.needs
    assert [one for one in STRATEGIES if STRATEGIES[one].title == declared.title] == [name]
    assert declared.module == f"nodewise.strategies.{name}"
    assert (declared.folder / "worker.py").is_file()
    assert declared.checked({}, declared.max_nodes) == declared.options()
    with pytest.raises(ValueError, match=r"^nodes: allowed"):
        declared.checked({}, declared.max_nodes + 1)


PERIOD = "period: must be epoch, or steps: 1 to 1,000,000"


@pytest.mark.parametrize(
    ("strategy", "nodes", "options", "said"),
    [
        ("async_sgd", 4, {"updates": 4}, "updates: allowed: 2 to 3, not 4"),
        ("async_sgd", 2, {"updates": 2}, "updates: only with 3 or more nodes, not 2"),
        ("async_sgd", 4, {"updates": True}, "updates: true is not allowed"),
        ("async_sgd", 2, {"bound": -1}, "bound: -1 is not allowed, must be at least 0"),
        ("async_sgd", 2, {"servers": 3}, "servers: at most 2, the nodes; not 3"),
        ("async_sgd", 2, {"stale": 1}, "stale: unknown; allowed: bound, "),
        ("compressed_sgd", 3, {"method": "gzip"}, "method: "),
        ("compressed_sgd", 3, {"threshold": float("nan")}, "threshold: nan is not allowed"),
        ("compressed_sgd", 3, {"share": 0.1}, "share: only with method top_k, not threshold"),
        ("compressed_sgd", 3, {"values": "float16"}, "values: only with method top_k"),
        ("compressed_sgd", 3, {"method": "float16", "threshold": 0.1}, "threshold: only with"),
        ("compressed_sgd", 3, {"warmup_nodes": 2}, "warmup_nodes: only with warmup_steps of 1"),
        ("compressed_sgd", 3, {"warmup_steps": 9, "warmup_nodes": 4}, "warmup_nodes: at most 3"),
        ("model_parallel", 2, {"micro_batches": 0}, "micro_batches: 0 is not allowed, "),
        ("hybrid", 3, {}, "groups: must divide 3, the nodes: 1, 3; not 2"),
        ("hybrid", 4, {"groups": 8}, "groups: must divide 4, the nodes: 1, 2, 4; not 8"),
        ("parameter_averaging", 2, {"period": 0}, f"{PERIOD}; not 0"),
        ("parameter_averaging", 2, {"period": 2_000_000}, f"{PERIOD}; not"),
        ("parameter_averaging", 2, {"period": "epochs"}, f"{PERIOD}; not 'ep"),
        ("parameter_averaging", 2, {"period": True}, f"{PERIOD}; not True"),
        ("parameter_server", 3, {"servers": 4}, "servers: at most 3, the nodes; not 4"),
        ("multi_worker_mirrored", 3, {"collective": "tree"}, "collective: 'tree' is not allowed"),
    ],
)
def test_what_is_not_allowed_is_refused(strategy, nodes, options, said):
    with pytest.raises(ValueError, match=r"^options\.") as raised:
        STRATEGIES[strategy].checked(options, nodes)
    assert str(raised.value).startswith(f"options.{said}") and "\n" not in str(raised.value)

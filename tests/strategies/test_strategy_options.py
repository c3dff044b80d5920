"""Options of strategies: what is not allowed is refused in one line that names the option."""

import pytest

from nodewise.strategies import STRATEGIES


def checked(strategy, nodes, **options):
    return STRATEGIES[strategy].checked(options, nodes)


def refusal(strategy, nodes, **options):
    with pytest.raises(ValueError, match=r"^options\.") as raised:
        checked(strategy, nodes, **options)
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(
    ("nodes", "options", "said"),
    [
        (4, {"updates": 4}, "options.updates: allowed: 2 to 3, not 4"),
        (4, {"updates": 1}, "options.updates: allowed: 2 to 3, not 1"),
        (4, {"updates": -2}, "options.updates: allowed: 2 to 3, not -2"),
        (2, {"updates": 2}, "options.updates: only with 3 or more nodes, not 2"),
        (4, {"updates": True}, "options.updates: true is not allowed, must be a whole number"),
        (2, {"bound": -1}, "options.bound: -1 is not allowed, must be at least 0"),
        (2, {"servers": 3}, "options.servers: at most 2, the nodes; not 3"),
        (2, {"servers": 0}, "options.servers: 0 is not allowed, must be at least 1"),
        (
            2,
            {"scale_by_staleness": 1},
            "options.scale_by_staleness: 1 is not allowed, must be",
        ),
        (2, {"stale": 1}, "options.stale: "),
    ],
)
def test_async_sgd_refuses(nodes, options, said):
    assert refusal("async_sgd", nodes, **options).startswith(said)


def test_async_sgd_by_default_has_one_server_and_nothing_is_held_back():
    options = checked("async_sgd", 1)
    assert options.server_nodes == 1
    assert options.model_dump() == {
        "servers": 1,
        "scale_by_staleness": False,
        "updates": None,
        "bound": None,
    }


def test_async_sgd_takes_all_options_together():
    options = checked("async_sgd", 3, servers=3, scale_by_staleness=True, updates=2, bound=0)
    assert options.server_nodes == 3
    assert options == type(options).model_validate(options.model_dump())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"method": "gzip"}, "options.method: "),
        (
            {"threshold": 0},
            "options.threshold: 0 is not allowed, must be at least 1e-09",
        ),
        (
            {"threshold": float("nan")},
            "options.threshold: nan is not allowed, must be at most 1e+09",
        ),
        ({"method": "top_k", "share": 1.5}, "options.share: 1.5 is not allowed, must be at most 1"),
        ({"method": "top_k", "values": "float64"}, "options.values: "),
        ({"share": 0.1}, "options.share: only with method top_k, not threshold"),
        ({"values": "float16"}, "options.values: only with method top_k, not threshold"),
        (
            {"method": "float16", "threshold": 0.1},
            "options.threshold: only with method threshold, not float16",
        ),
        ({"warmup_nodes": 2}, "options.warmup_nodes: only with warmup_steps of 1 or more"),
        (
            {"warmup_steps": 9, "warmup_nodes": 4},
            "options.warmup_nodes: at most 3, the nodes; not 4",
        ),
        ({"warmup_steps": -1}, "options.warmup_steps: -1 is not allowed, must be at least 0"),
    ],
)
def test_compressed_sgd_refuses(options, said):
    assert refusal("compressed_sgd", 3, **options).startswith(said)


def test_compressed_sgd_takes_the_options_of_each_method():
    assert checked("compressed_sgd", 1).method == "threshold"
    assert checked("compressed_sgd", 2, method="float16").warmup_steps == 0
    assert checked("compressed_sgd", 3, threshold=1, warmup_steps=9, warmup_nodes=3).threshold == 1
    assert checked("compressed_sgd", 64, method="top_k", share=1).values == "float16"


@pytest.mark.parametrize(
    ("strategy", "nodes", "options", "said"),
    [
        (
            "model_parallel",
            2,
            {"micro_batches": 0},
            "options.micro_batches: 0 is not allowed, ",
        ),
        (
            "model_parallel",
            2,
            {"micro_batches": 1.5},
            "options.micro_batches: 1.5 is not allowed, ",
        ),
        ("model_parallel", 2, {"groups": 2}, "options.groups: "),
        ("hybrid", 3, {}, "options.groups: must divide 3, the nodes: 1, 3; not 2"),
        ("hybrid", 4, {"groups": 8}, "options.groups: must divide 4, the nodes: 1, 2, 4; not 8"),
        ("hybrid", 4, {"groups": 0}, "options.groups: 0 is not allowed, must be at least 1"),
    ],
)
def test_pipelines_refuse(strategy, nodes, options, said):
    assert refusal(strategy, nodes, **options).startswith(said)


def test_pipelines_by_default_have_whole_batches_and_two_groups():
    assert checked("model_parallel", 3).model_dump() == {"micro_batches": 1}
    assert checked("hybrid", 6, groups=3).model_dump() == {"micro_batches": 1, "groups": 3}
    assert checked("hybrid", 4).groups == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"period": 0}, "options.period: must be epoch, or steps: 1 to 1,000,000; not 0"),
        ({"period": 2_000_000}, "options.period: must be epoch, or steps: 1 to 1,000,000; not"),
        ({"period": "epochs"}, "options.period: must be epoch, or steps: 1 to 1,000,000; not 'ep"),
        ({"period": True}, "options.period: must be epoch, or steps: 1 to 1,000,000; not True"),
        ({"period": 1.0}, "options.period: must be epoch, or steps: 1 to 1,000,000; not 1.0"),
        ({"period": None}, "options.period: must be epoch, or steps: 1 to 1,000,000; not None"),
        (
            {"optimizer_state": "shared"},
            "options.optimizer_state: 'shared' is not allowed",
        ),
        ({"every": 5}, "options.every: "),
    ],
)
def test_parameter_averaging_refuses(options, said):
    assert refusal("parameter_averaging", 2, **options).startswith(said)


@pytest.mark.parametrize("period", [1, 5, 1_000_000, "epoch"])
def test_parameter_averaging_takes_steps_or_an_epoch_as_its_period(period):
    options = checked("parameter_averaging", 2, period=period)
    assert options.model_dump() == {"period": period, "optimizer_state": "kept"}
    assert options == type(options).model_validate(options.model_dump())


def test_multi_worker_mirrored_is_a_ring_unless_told_otherwise():
    assert checked("multi_worker_mirrored", 1).model_dump() == {"collective": "ring"}
    assert checked("multi_worker_mirrored", 3, collective="star").model_dump() == {
        "collective": "star"
    }
    said = "options.collective: 'tree' is not allowed, must be 'ring' or 'star'"
    assert refusal("multi_worker_mirrored", 3, collective="tree") == said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"servers": 4}, "options.servers: at most 3, the nodes; not 4"),
        ({"servers": 0}, "options.servers: 0 is not allowed, must be at least 1"),
        ({"servers": 1.0}, "options.servers: 1.0 is not allowed, must be a whole number"),
        ({"bound": 1}, "options.bound: "),
    ],
)
def test_parameter_server_refuses(options, said):
    assert refusal("parameter_server", 3, **options).startswith(said)


def test_parameter_server_has_its_servers_beside_the_nodes_that_train():
    assert checked("parameter_server", 1).server_nodes == 1
    assert checked("parameter_server", 2, servers=2).server_nodes == 2

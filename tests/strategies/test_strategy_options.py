"""Options of strategies: a value that is not allowed is refused in one line with its name."""

import pytest

from nodewise.strategies import STRATEGIES


def checked(strategy, nodes, **options):
    return STRATEGIES[strategy].checked(options, nodes)


def refusal(strategy, nodes, **options):
    with pytest.raises(ValueError, match=r"^options\.") as raised:
        checked(strategy, nodes, **options)
    assert "\n" not in str(raised.value)
    return str(raised.value)


PERIOD = "period: must be epoch, or steps: 1 to 1,000,000"
# (strategy, nodes)
ASYNC_4 = ("async_sgd", 4)
ASYNC_2 = ("async_sgd", 2)
COMPRESSED = ("compressed_sgd", 3)
STAGES = ("model_parallel", 2)
HYBRID_3 = ("hybrid", 3)
HYBRID_4 = ("hybrid", 4)
AVERAGING = ("parameter_averaging", 2)
SERVERS = ("parameter_server", 3)
MIRRORED = ("multi_worker_mirrored", 3)
REFUSED = [
    (ASYNC_4, {"updates": 4}, "updates: allowed: 2 to 3, not 4"),
    (ASYNC_4, {"updates": 1}, "updates: allowed: 2 to 3, not 1"),
    (ASYNC_4, {"updates": -2}, "updates: allowed: 2 to 3, not -2"),
    (ASYNC_2, {"updates": 2}, "updates: only with 3 or more nodes, not 2"),
    (ASYNC_4, {"updates": True}, "updates: true is not allowed, must be a whole number"),
    (ASYNC_2, {"bound": -1}, "bound: -1 is not allowed, must be at least 0"),
    (ASYNC_2, {"servers": 3}, "servers: at most 2, the nodes; not 3"),
    (ASYNC_2, {"servers": 0}, "servers: 0 is not allowed, must be at least 1"),
    (ASYNC_2, {"scale_by_staleness": 1}, "scale_by_staleness: 1 is not allowed, must be"),
    (ASYNC_2, {"stale": 1}, "stale: "),
    (COMPRESSED, {"method": "gzip"}, "method: "),
    (COMPRESSED, {"threshold": 0}, "threshold: 0 is not allowed, must be at least 1e-09"),
    (
        COMPRESSED,
        {"threshold": float("nan")},
        "threshold: nan is not allowed, must be at most 1e+09",
    ),
    (COMPRESSED, {"method": "top_k", "share": 1.5}, "share: 1.5 is not allowed, must be at most 1"),
    (COMPRESSED, {"method": "top_k", "values": "float64"}, "values: "),
    (COMPRESSED, {"share": 0.1}, "share: only with method top_k, not threshold"),
    (COMPRESSED, {"values": "float16"}, "values: only with method top_k, not threshold"),
    (
        COMPRESSED,
        {"method": "float16", "threshold": 0.1},
        "threshold: only with method threshold, not float16",
    ),
    (COMPRESSED, {"warmup_nodes": 2}, "warmup_nodes: only with warmup_steps of 1 or more"),
    (
        COMPRESSED,
        {"warmup_steps": 9, "warmup_nodes": 4},
        "warmup_nodes: at most 3, the nodes; not 4",
    ),
    (COMPRESSED, {"warmup_steps": -1}, "warmup_steps: -1 is not allowed, must be at least 0"),
    (STAGES, {"micro_batches": 0}, "micro_batches: 0 is not allowed, "),
    (STAGES, {"micro_batches": 1.5}, "micro_batches: 1.5 is not allowed, "),
    (STAGES, {"groups": 2}, "groups: "),
    (HYBRID_3, {}, "groups: must divide 3, the nodes: 1, 3; not 2"),
    (HYBRID_4, {"groups": 8}, "groups: must divide 4, the nodes: 1, 2, 4; not 8"),
    (HYBRID_4, {"groups": 0}, "groups: 0 is not allowed, must be at least 1"),
    (AVERAGING, {"period": 0}, f"{PERIOD}; not 0"),
    (AVERAGING, {"period": 2_000_000}, f"{PERIOD}; not"),
    (AVERAGING, {"period": "epochs"}, f"{PERIOD}; not 'ep"),
    (AVERAGING, {"period": True}, f"{PERIOD}; not True"),
    (AVERAGING, {"period": 1.0}, f"{PERIOD}; not 1.0"),
    (AVERAGING, {"period": None}, f"{PERIOD}; not None"),
    (AVERAGING, {"every": 5}, "every: "),
    (SERVERS, {"servers": 4}, "servers: at most 3, the nodes; not 4"),
    (SERVERS, {"servers": 0}, "servers: 0 is not allowed, must be at least 1"),
    (SERVERS, {"servers": 1.0}, "servers: 1.0 is not allowed, must be a whole number"),
    (SERVERS, {"bound": 1}, "bound: "),
    (
        MIRRORED,
        {"collective": "tree"},
        "collective: 'tree' is not allowed, must be 'ring' or 'star'",
    ),
]


@pytest.mark.parametrize(("job", "options", "said"), REFUSED)
def test_what_is_not_allowed_is_refused(job, options, said):
    assert refusal(*job, **options).startswith(f"options.{said}")


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


def test_compressed_sgd_takes_the_options_of_each_method():
    assert checked("compressed_sgd", 1).method == "threshold"
    assert checked("compressed_sgd", 2, method="float16").warmup_steps == 0
    assert checked("compressed_sgd", 3, threshold=1, warmup_steps=9, warmup_nodes=3).threshold == 1
    assert checked("compressed_sgd", 64, method="top_k", share=1).values == "float16"


def test_pipelines_by_default_have_whole_batches_and_two_groups():
    assert checked("model_parallel", 3).model_dump() == {"micro_batches": 1}
    assert checked("hybrid", 6, groups=3).model_dump() == {"micro_batches": 1, "groups": 3}
    assert checked("hybrid", 4).groups == 2


@pytest.mark.parametrize("period", [1, 5, 1_000_000, "epoch"])
def test_parameter_averaging_takes_steps_or_an_epoch_as_its_period(period):
    options = checked("parameter_averaging", 2, period=period)
    assert options.model_dump() == {"period": period}
    assert options == type(options).model_validate(options.model_dump())


def test_multi_worker_mirrored_is_a_ring_unless_told_otherwise():
    assert checked("multi_worker_mirrored", 1).model_dump() == {"collective": "ring"}
    assert checked("multi_worker_mirrored", 3, collective="star").model_dump() == {
        "collective": "star"
    }


def test_parameter_server_has_its_servers_beside_the_nodes_that_train():
    assert checked("parameter_server", 1).server_nodes == 1
    assert checked("parameter_server", 2, servers=2).server_nodes == 2

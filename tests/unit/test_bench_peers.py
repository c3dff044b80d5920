"""What the comparison with the peers makes of its launches."""

import importlib.util
import sys
from pathlib import Path

import pytest

PEERS = Path(__file__).parents[2] / "bench" / "peers"


@pytest.fixture(scope="module")
def results():
    spec = importlib.util.spec_from_file_location("bench_peers_results", PEERS / "results.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture
def run(results):
    def made(number, way, step_s, nodes=2, **other):
        return results.Run(
            round=number,
            model="fashion_cnn",
            way=way,
            nodes=nodes,
            batch=64,
            kind="emulated",
            step_s=step_s,
            **{
                "all_reduce_s": None,
                "payload_bytes": 5_000_000,
                "sent_bytes": None,
                "outside": [],
            }
            | other,
        )

    return made


def test_a_ratio_is_taken_within_a_round(results, run):
    """The machine is twice as slow in every round: the ratio is the same in all of them."""
    runs = [run(n, "custom_loop", 0.8 * 2**n) for n in range(4)]
    runs += [run(n, "horovod", 1.0 * 2**n) for n in range(4)]
    (ratio,) = results.ratios(runs)
    assert (ratio.way, ratio.peer, ratio.nodes, ratio.kind) == (
        "custom_loop",
        "horovod",
        2,
        "emulated",
    )
    assert ratio.ratio.median == pytest.approx(0.8)
    assert (ratio.ratio.low, ratio.ratio.high) == (pytest.approx(0.8), pytest.approx(0.8))
    assert ratio.ratio.rounds == 4


def test_only_rounds_that_have_both_and_places_that_have_both_count(results, run):
    runs = [run(0, "mpi", 1.0), run(1, "mpi", 3.0), run(1, "ddp", 2.0), run(0, "mpi", 1.0, nodes=3)]
    (ratio,) = results.ratios(runs)
    assert (ratio.nodes, ratio.ratio.median, ratio.ratio.rounds) == (2, 1.5, 1)
    assert ratio.ratio.low is None and str(ratio.ratio) == "1.500 (one round)"


def test_an_interval_holds_its_median_and_gets_wider_with_the_spread(results):
    narrow, wide = (results.interval([1 - s, 1, 1 + s, 1 - s / 2, 1 + s / 2]) for s in (0.01, 0.3))
    for one in (narrow, wide):
        assert one.low <= one.median == 1 <= one.high
    assert wide.high - wide.low > 10 * (narrow.high - narrow.low)


@pytest.mark.parametrize(("nodes", "wire_s"), [(2, 0.4), (8, 0.7)])
def test_all_reduces_are_told_in_units_of_the_wire_time(results, run, nodes, wire_s):
    runs = [run(0, "custom_loop", 1.0, nodes, all_reduce_s=1.1 * wire_s)]
    runs += [run(0, "split_dense", 1.0, nodes)]  # has none
    (found,) = results.all_reduces(runs, rate_mbit=100)
    assert found.way == "custom_loop"
    assert found.wire_s == pytest.approx(wire_s)
    assert found.ratio.median == pytest.approx(1.1)


def test_a_rate_is_better_the_higher_it_is(results):
    rates = {"custom_loop": [200.0, 400.0], "fit": [100.0, 100.0]}
    assert results.fit_ratios(rates, "custom_loop")["fit"].median == 3

"""How the comparison with other frameworks evaluates its launches."""

from types import SimpleNamespace

import medians as peers
import numpy as np
import pandas as pd
import pytest

import make_calibration
import make_records
from nodewise.core.schema import read_json
from nodewise.report.pages.peers import FILE, pages


def run(number, way, step_s, nodes=2, all_reduce_s=None):
    about = {"model": "fashion_cnn", "batch": 64, "kind": "emulated", "outside": []}
    about |= {"payload_bytes": 5_000_000, "sent_bytes": None, "all_reduce_s": all_reduce_s}
    return peers.Run(round=number, way=way, nodes=nodes, step_s=step_s, **about)


def values(runs, what, **where):
    """Return the medians of one kind of value."""
    results = peers.Results(
        started_at=make_records.START,
        finished_at=make_records.START,
        cluster=make_calibration.calibration().cluster,
        batch=64,
        provenance=make_records.record(make_records.cell()).provenance,
        same_work=[],
        fits=[],
        runs=runs,
    )
    found = peers.medians(results)
    for name, value in {"what": what, **where}.items():
        found = found[found[name] == value]
    return found


def test_the_page_shows_the_medians_of_the_published_launches():
    launches = read_json(peers.Results, FILE)
    columns = ["way", "peer", "what", "median", "low", "high", "rounds"]
    written = pd.read_csv(FILE.with_suffix(".csv")).fillna({"peer": ""})[columns]
    found = peers.medians(launches)[columns]
    pd.testing.assert_frame_equal(written, found, check_dtype=False)
    (page,) = pages(SimpleNamespace(model_title=str, strategy_title=str, pick=lambda *_: []))
    assert page.context["launches"] == len(launches.runs)
    assert page.context["cluster"] == "0.2 core, 100 Mbit/s"
    added = found[(found["what"] == "added") & (found["peer"] != "")]["median"]
    told = page.context["verdict"].tolist()
    assert told == pytest.approx([len(added), added.median(), added.min(), added.max()])
    assert "Comparisons: 6" in page.context["added"].caption  # two models on 2, 3 and 8 nodes
    assert len(page.context["added"].rows) == 3 * 2  # strategies, and whom they are compared with


def test_a_ratio_is_taken_within_a_round():
    """The machine becomes twice as slow from round to round; the ratio stays the same."""
    runs = [run(n, "custom_loop", 0.8 * 2**n) for n in range(4)]
    runs += [run(n, "horovod", 1.0 * 2**n) for n in range(4)]
    (ratio,) = values(runs, "step", peer="horovod").to_dict("records")
    assert (ratio["way"], ratio["nodes"], ratio["kind"]) == ("custom_loop", 2, "emulated")
    ends = [ratio[name] for name in ("low", "median", "high")]
    assert ends == pytest.approx([0.8] * 3) and ratio["rounds"] == 4


def test_only_rounds_that_have_both_and_places_that_have_both_count():
    runs = [run(0, "mpi", 1.0), run(1, "mpi", 3.0), run(1, "ddp", 2.0), run(0, "mpi", 1.0, nodes=3)]
    (ratio,) = values(runs, "step", peer="ddp").to_dict("records")
    assert (ratio["nodes"], ratio["median"], ratio["rounds"]) == (2, 1.5, 1)
    assert np.isnan(ratio["low"])


def test_what_the_exchange_adds_is_a_step_less_one_on_one_node_of_the_same_round():
    runs = [run(n, "custom_loop", 0.4 * 2**n, nodes=1) for n in range(3)]
    runs += [run(n, "custom_loop", 1.0 * 2**n, nodes=3, all_reduce_s=0.5 * 2**n) for n in range(3)]
    runs += [run(n, "ddp", 0.2 * 2**n, nodes=1) for n in range(3)]
    runs += [run(n, "ddp", 1.2 * 2**n, nodes=3) for n in range(3)]
    added = values(runs, "added", peer="").set_index("way")["median"]
    assert added.to_dict() == pytest.approx({"custom_loop": 1.2, "ddp": 2.0})
    # 1.0 s instead of 0.5 s in each round
    longer = values(runs, "of_longer").set_index("way")["median"]
    assert longer.to_dict() == pytest.approx({"custom_loop": 2})
    assert values(runs, "added", peer="ddp")["median"].tolist() == pytest.approx([0.6])


def test_ratios_of_a_few_rounds_hold_the_truth_as_often_as_they_say():
    random, covered = np.random.default_rng(4), []
    for _ in range(10):
        steps = np.exp(random.normal(0, 0.05, (3, 2, 40)))
        runs = [
            run(number, way, step_s, nodes)
            for number, of_round in enumerate(steps)
            for way, of_way in zip(("custom_loop", "horovod"), of_round, strict=True)
            for nodes, step_s in enumerate(of_way, 2)
        ]
        found = values(runs, "step", peer="horovod")
        covered += [*((found["low"] <= 1) & (found["high"] >= 1))]
    assert len(covered) == 400
    assert 0.85 < np.mean(covered) < 0.95


@pytest.mark.parametrize(("nodes", "wire_s"), [(2, 0.4), (8, 0.7)])
def test_all_reduces_are_told_in_units_of_the_wire_time(nodes, wire_s):
    runs = [run(0, "custom_loop", 1.0, nodes, all_reduce_s=1.1 * wire_s)]
    runs += [run(0, "mpi", 1.0, nodes)]  # This way has no measured all-reduce.
    (found,) = values(runs, "all_reduce").to_dict("records")
    assert (found["way"], found["wire_s"]) == ("custom_loop", pytest.approx(wire_s))
    assert found["median"] == pytest.approx(1.1)

"""`predict` and `optimum` for curves of devices in machines, across machines and far away."""

from functools import partial

import numpy as np
import pytest

from mistakes import user_error

HEADER = (
    "curve,n_devices,n_nodes,devices_per_node,scaling,batch_per_device,global_batch,"
    "quantity,value,unit"
)


def weak(counts):
    return [f"a,{n},{-(-n // 8)},8,weak,32,,throughput,{100 * n**0.9},img/s" for n in counts]


def strong(counts):
    return [f"a,{n},{-(-n // 8)},8,strong,,512,run_time,{5 + 60 / n},min" for n in counts]


@pytest.fixture
def run(ask):
    return partial(ask, HEADER)


def test_over_several_machines_only_full_ones_are_compared(run, ask):
    measured = weak((1, 2, 4, 12))
    (row,) = run(measured, "optimum", "--nodes", "1-32")
    assert [one["nodes"] for one in row["nodes"]] == [*range(1, 9), 12, 16, 24, 32]
    rows = run(measured, "predict", "--nodes", "20")
    assert [row["nodes"] for row in rows] == [20]  # as it is asked for explicitly
    assert 0 < rows[0]["efficiency"] < 1
    for at, rows, full in (  # a machine has as many devices as were used in one
        ("nodes,devices_per_node", ("1,1", "1,2", "1,4", "2,8"), [*range(1, 9), 16, 24, 32]),
        ("n_devices,n_nodes", ("1,1", "3,2"), [1, 2, 3, *range(4, 33, 2)]),
    ):
        used = [f"a,{row},32,{10 * n}" for n, row in enumerate(rows, 9)]
        columns = f"curve,{at},batch_per_worker,samples_per_s"
        (row,) = ask(columns, used, "optimum", "--nodes", "1-32")
        assert [one["nodes"] for one in row["nodes"]] == full


def test_predictions_of_a_table_and_of_numbers_of_nodes_agree(run, tmp_path):
    points = tmp_path / "points.csv"
    points.write_text("curve,n_devices\na,32\na,64")
    (near, far) = run(weak((1, 2, 4, 8, 16)), "predict", "--at", points)
    rows = run(weak((1, 2, 4, 8, 16)), "predict", "--nodes", "32,64")
    speeds = [row["samples_per_s"] for row in rows]
    assert speeds == pytest.approx([near["value"], far["value"]])
    assert [row["extrapolated"] for row in rows] == [False, True]


ALIKE = {  # tables of the same steps: the time of one on n machines of 8 devices, or on n nodes
    "machines": {
        f"{HEADER}": lambda n, s: f"a,{8 * n},{n},8,weak,64,,step_time,{s},s",
        "curve,nodes,devices_per_node,batch_per_worker,step_time_s": lambda n, s: f"a,{n},8,64,{s}",
        "curve,nodes,devices_per_node,samples_per_s,batch_per_worker": (
            lambda n, s: f"a,{n},8,{8 * n * 64 / s},64"
        ),
    },
    "nodes": {
        "curve,n_devices,batch_per_device,value,quantity,unit": (
            lambda n, s: f"a,{n},64,{1e3 * s},step_time,ms"
        ),
        "curve,nodes,batch_per_worker,step_time_s": lambda n, s: f"a,{n},64,{s}",
    },
    "one global batch": {
        "curve,n_devices,global_batch,value,quantity,unit,scaling": (
            lambda n, s: f"a,{n},512,{4e3 * s / n},run_time,s,strong"
        ),
        "curve,nodes,global_batch,batch_per_worker,samples_per_s": (
            lambda n, s: f"a,{n},512,{512 / n},{n / s}"
        ),
    },
}


@pytest.mark.parametrize("command", ["predict", "optimum", "next"])
@pytest.mark.parametrize("kind", ALIKE)
def test_the_same_data_in_other_columns_have_the_same_answer(ask, command, kind):
    answers = []
    for header, row in ALIKE[kind].items():
        rows = [row(n, step_s) for n, step_s in ((1, 0.182), (2, 0.2), (4, 0.215))]
        options = ("--examples", 30_000) if command == "predict" else ()
        (one, *_) = ask(header, rows, command, "--nodes", "64", *options)
        last = one["nodes"][-1] if command == "optimum" else one
        names = ["nodes", "fastest", "regret"] if command == "next" else ["speedup"]
        if command != "next" and kind != "one global batch":  # which has a time of its own unit
            names += ["time", "time_low", "time_high"]
        answers.append([last[name] for name in names])
    for other in answers[1:]:
        assert other == pytest.approx(answers[0], rel=1e-6)


def test_intervals_of_a_law_widen_beyond_what_was_measured(ask):
    header = "curve,nodes,batch_per_worker,step_time_s,payload_bytes"
    measured = [f"a,{n},64,{0.1 + 0.01 * (n - 1) / n},4e6" for n in (1, 2, 4, 8)]
    rows = ask(header, measured, "predict", "--nodes", "8,16,64")
    at_8, at_16, at_64 = (np.log(row["high"] / row["low"]) for row in rows)
    assert at_8 < at_16 - 0.01 and at_16 < at_64 - 0.05
    assert [row["kind"] for row in rows] == ["fitted", "predicted", "extrapolated"]


def test_a_chance_where_nothing_was_measured_is_less_sure_the_farther_it_is(run):
    """On n devices, 50,000 examples take 500/n^0.9 s: at every n, ask for 1.15 times as long."""
    measured, chances = weak((1, 2, 4)), []
    for n in (4, 8, 64):
        asked = ("--examples", "5e4", "--deadline", f"{1.15 * 500 / n**0.9}s")
        (row,) = run(measured, "optimum", "--nodes", f"1,{n}", *asked)
        chances.append(row["nodes"][-1]["chance"])
        assert ("(measured up to 4)" in row["answer"]) == (n > 4)
        assert " node" not in row["answer"]
    assert chances[0] > 0.95 > chances[1] > chances[2]


def test_what_a_curve_lacks_is_said_and_no_number_is_made_up(run):
    counts = "64:256000,512:512000,1024:716800"
    ask = ("optimum", "--nodes", "1,2,4,8", "--samples-to-target", counts)
    needs_examples = "curve a: needs --examples, the examples of an epoch"
    assert needs_examples in user_error(run, strong((1, 2, 4)), *ask)
    (known,) = run(strong((1, 2, 4)), *ask, "--examples", 51_200)
    assert known["job"] == "run"
    # An epoch of 65 minutes on one device has 100 steps; the target takes about 1000.
    assert known["nodes"][0]["time"] == pytest.approx(65 * 60 / 100 * 1000, rel=0.2)
    no_batch = [row.replace(",512,", ",,") for row in strong((1, 2, 4))]
    said = user_error(run, no_batch, *ask, "--examples", 51_200)
    assert "curve a: times of examples need batches" in said
    assert "curve a: --batch means nothing" in user_error(run, no_batch, "optimum", "--batch", 9)
    assert needs_examples in user_error(run, weak((1, 2, 4)), "optimum", "--deadline", "1h")

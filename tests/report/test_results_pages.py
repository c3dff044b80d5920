"""Pages of results and of curves begin with how much faster several nodes are than one."""

from types import SimpleNamespace

import pandas as pd
import pytest

from nodewise.report.pages._scaling import extremes, largest_and_smallest_batch, time_to_accuracy
from rendering import leads

LINE = {"experiment": "e", "dataset": "d", "cluster": "c", "machine": "m", "label": "emulated"}
SUMS, AVERAGES = "multi_worker_mirrored", "parameter_averaging"


def points(*rows, strategy=SUMS, exchange="ring"):
    """Return points of one line; a row is its batch, nodes, speed-up and what it lacks."""
    table = pd.DataFrame(rows, columns=["batch_per_worker", "nodes", "speedup", "lacks"])
    return table.assign(**LINE, line=strategy, strategy=strategy, exchange=exchange, model="cnn")


def speedups(ends):
    return [one["speedup"] for one in ends]


def test_the_ends_are_the_batches_on_most_nodes_of_points_that_count():
    rows = points((32, 8, 0.7, ""), (512, 8, 3.7, ""), (512, 4, 9, ""), (999, 8, 8, "rest"))
    assert speedups(largest_and_smallest_batch(rows)) == [3.7, 0.7]
    assert speedups(largest_and_smallest_batch(rows[:1])) == [0.7]
    assert largest_and_smallest_batch(rows[3:]) == []


def test_a_strategy_that_sums_all_gradients_stands_for_a_model():
    averaged = points((64, 2, 1.5, ""), (64, 8, 4, ""), strategy=AVERAGES, exchange="averaging")
    rows = pd.concat([points((64, 8, 1.9, "")), averaged])
    assert speedups(largest_and_smallest_batch(rows)) == [1.9]
    assert speedups(largest_and_smallest_batch(averaged)) == [4]


def test_the_best_and_the_worst_point_count_as_evidence():
    rows = points((32, 2, 0.5, ""), (64, 2, 1.5, ""), (64, 3, 2.5, "launches"), (1, 2, 1, ""))
    assert speedups(extremes(rows)) == [1.5, 0.5]
    assert extremes(rows[2:3]) == []


@pytest.mark.parametrize(("times", "fastest"), [([33, 45, 56, 20], 1), ([33, 45, 20, 10], 8)])
def test_the_time_to_accuracy_is_of_the_point_s_curve_up_to_its_nodes(times, fastest):
    curve = {"experiment": "e", "model": "cnn", "strategy": SUMS, "batch_per_worker": 512}
    runs = pd.DataFrame({"nodes": [1, 2, 8, 64], "time": times, "job": "run", **curve})
    targets = pd.DataFrame({"model": ["cnn"], "target": [0.83]})
    study = SimpleNamespace(fit_tables={"optima": runs, "steps_to_accuracy": targets})
    found = time_to_accuracy(study, curve | {"nodes": 8})
    assert (found["one"]["time"], found["several"]["time"]) == (33, times[2])
    assert (found["fastest"]["nodes"], found["target"]) == (fastest, 0.83)
    assert time_to_accuracy(study, curve | {"nodes": 8, "batch_per_worker": 64}) is None
    assert time_to_accuracy(study, curve | {"nodes": 3}) is None


@pytest.mark.parametrize(
    "page", ["results/fashion-mnist/fashion-cnn", "curves/fashion-cnn/multi-worker-mirrored"]
)
def test_the_first_sentence_is_the_answer_and_a_chart_follows(study, page):
    curves = pd.read_parquet(study / "tables/curves.parquet")
    counts = (curves["flags"] == "") & (curves["repeats"] >= 3) & (curves["nodes"] > 1)
    best = curves.loc[counts & (curves["model"] == "fashion_cnn"), "speedup"].max()
    (lead,) = leads(study / "docs" / f"{page}.md")
    assert f"{best:#.2g} times as fast" in lead
    text = (study / "docs" / f"{page}.md").read_text()
    assert text.index("nw-lead") < text.index("<figure") < text.index("<table")

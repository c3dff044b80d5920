"""What the laws say about the published NTUA table, recomputed from its rows.

Every number is computed a second time in the simplest way, without the package's own code, and
compared with the reported number.
"""

import pandas as pd
import pytest

from nodewise.predict.judge import LARGEST, OWN
from nodewise.predict.study import ALL_POINTS, fit_study, judge_study
from nodewise.results.curve_points import published_points
from nodewise.results.published import ntua

CURVE = ["model", "batch_per_worker"]


@pytest.fixture(scope="module")
def results():
    points = published_points(ntua())
    return fit_study(points, draws=100) | judge_study(points, draws=100)


@pytest.fixture(scope="module")
def wide():
    """Return a row per (model, batch): step times t1 … t3, training times T1 … T3, payload s."""
    table = ntua()
    parts = [
        table.pivot(index=CURVE, columns="nodes", values=value).add_prefix(name)
        for name, value in (("t", "step_time_s"), ("T", "training_time_s"))
    ]
    return pd.concat([*parts, table.groupby(CURVE)["payload_bytes"].first().rename("s")], axis=1)


def score(fitted, observed):
    errors = (fitted / observed - 1).abs()
    return errors.median(), errors.mean(), errors.max()


def reported(results, scenario, law=OWN):
    rows = results["judgement"]
    row = rows[(rows["scenario"] == scenario) & (rows["law"] == law)]
    assert len(row) == 1
    return tuple(row.iloc[0][["median_error", "mean_error", "worst_error"]])


def test_three_nodes_are_predicted_from_one_and_two(results):
    """All twelve curves share one latency, one bandwidth and one spread; the limit is 5 %."""
    median, mean, _ = reported(results, LARGEST)
    assert median <= 0.05
    assert mean <= 0.075
    counts = results["judgement"].set_index(["scenario", "law"]).loc[(LARGEST, OWN)]
    assert list(counts[["curves", "points", "trained"]]) == [12, 12, "1, 2 → 3"]
    assert counts["covered"] >= 0.75


def test_a_bandwidth_of_its_own_for_each_curve_does_worse(results, wide):
    """B follows from t(2) − t(1) = S/B; then t(3) = t(1) + 4/3·S/B."""
    alone = score(wide["t1"] + 4 / 3 * (wide["t2"] - wide["t1"]), wide["t3"])
    assert alone[:2] == pytest.approx((0.053, 0.102), abs=5e-4)
    together = reported(results, LARGEST)
    assert together[0] < alone[0]
    assert together[1] < alone[1]


def test_no_baseline_does_better(results):
    rows = results["judgement"]
    rows = rows[rows["scenario"] == LARGEST]
    own = rows[rows["own"]].iloc[0]
    baselines = rows[~rows["own"]]
    assert len(baselines) == 2
    assert (baselines["median_error"] > own["median_error"]).all()
    assert (baselines["mean_error"] > own["mean_error"]).all()


def test_natural_images_is_found_and_explained(results):
    """Its input grows with the global batch: reading others' examples costs most, not the link."""
    table = results["diagnosis"]
    several = table[(table["nodes"] > 1) & (table["batch_per_worker"] >= 64)]
    odd = several[several["model"] == "densenet121"]
    assert set(odd["overhead"]) == {"input-bound"}
    assert not (several.loc[several["model"] != "densenet121", "overhead"] == "input-bound").any()
    fits = results["fits"].set_index(["parameter", "model"])
    low = fits.loc[("input_per_example_s", "densenet121"), "low"]
    assert low > 0  # It is certainly above 0.
    others = fits.loc["input_per_example_s"].drop("densenet121")
    assert (others["low"] == 0).all()


def test_what_bounds_the_published_steps(results):
    table = results["diagnosis"].set_index(["model", "batch_per_worker", "nodes"])["bound"]
    assert table["fashion_cnn", 32, 3] == "bandwidth-bound"
    assert table["bert_base", 32, 3] == "compute-bound"
    assert (table.xs(1, level="nodes") == "compute-bound").all()


def sent(table):
    return 2 * (table["nodes"] - 1) / table["nodes"] * table["payload_bytes"]


def test_models_that_obey_another_law_stay_in_every_table(results):
    judgement, trials = results["judgement"], results["trials"]
    assert (judgement["curves"] == 12).all()
    assert set(judgement["points"]) == {12, 36}
    assert set(trials["model"]) == set(ntua()["model"])
    assert set(results["fits"]["source"]) == set(trials["source"]) == {"published"}


def test_every_published_time_is_in_the_predictions(results):
    predictions = results["predictions"]
    shown = predictions[predictions["scenario"] == ALL_POINTS].dropna(subset="observed_s")
    keys = [*CURVE, "nodes"]
    joined = shown.merge(ntua(), on=keys)
    assert len(joined) == 36
    assert (joined["observed_s"] == joined["step_time_s"]).all()

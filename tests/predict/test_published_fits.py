"""What the laws say about the published NTUA table, recomputed from its rows.

Every number is computed a second time in the simplest way, without the package's own code, and
compared with the reported number.
"""

import pytest

from nodewise.predict.fit_curves import fit_curves
from nodewise.predict.judge import LARGEST, judge
from nodewise.predict.study import fitted_tables, judge_study
from nodewise.results import published
from nodewise.results.curve_points import published_points


@pytest.fixture(scope="module")
def results():
    points = published_points(published.points())
    return fitted_tables(fit_curves(points, draws=100)) | judge_study(points, draws=100)


def reported(results, scenario):
    rows = judge(results["trials"])
    row = rows[rows["scenario"] == scenario]
    assert len(row) == 1
    return tuple(row.iloc[0][["median_error", "mean_error", "worst_error"]])


def test_three_nodes_are_predicted_from_one_and_two(results):
    """All twelve curves share one latency, one bandwidth and one spread; the limit is 5 %."""
    median, mean, _ = reported(results, LARGEST)
    assert median <= 0.05
    assert mean <= 0.075
    counts = judge(results["trials"]).set_index("scenario").loc[LARGEST]
    assert list(counts[["curves", "points", "trained"]]) == [12, 12, "1, 2 → 3"]
    assert counts["covered"] >= 0.75


def test_natural_images_is_found_and_explained(results):
    """Its input grows with the global batch: reading others' examples costs most, not the link."""
    fits = results["fits"].set_index(["parameter", "model"])
    low = fits.loc[("input_per_example_s", "densenet121"), "low"]
    assert low > 0  # It is certainly above 0.
    others = fits.loc["input_per_example_s"].drop("densenet121")
    assert (others["low"] == 0).all()

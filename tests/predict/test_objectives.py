"""The best numbers of nodes of every fitted curve of a study."""

import numpy as np
import pytest
from test_study import fit_all, launches, tables

from nodewise.predict.fit_curves import fit_curves
from nodewise.predict.steps_to_accuracy import BY_EPOCHS, KEY, StepsToAccuracy
from nodewise.predict.study import NODES, fitted_tables
from nodewise.results.curve_points import measured_points

EXAMPLES = 60_000


@pytest.fixture(scope="module")
def found():
    return fit_all(launches(nodes=(1, 2, 3, 4, 8), repeats=2, noise=0.01))


def asked(found, **where):
    rows = found["optima"]
    for name, value in where.items():
        rows = rows[rows[name] == value]
    assert len(rows)
    return rows.set_index("nodes")


def test_without_examples_of_an_epoch_the_job_is_a_million_of_them(found):
    assert set(found["optima"]["job"]) == {"epoch"}
    rows = fit_all(launches().assign(steps_per_epoch=None))["optima"]
    assert set(rows["job"]) == {"1M examples"}


def test_an_epoch_is_that_of_the_law(found):
    rows = asked(found, batch_per_worker=128)
    line = found["predictions"]
    line = line[line["batch_per_worker"] == 128].set_index("nodes")["fitted_s"]
    steps = EXAMPLES // 128 * 128 / (128 * rows.index.to_numpy())
    shared = rows.index.isin(line.index)
    seconds = line.reindex(rows.index[shared]) * steps[shared]
    assert rows["time"][shared].to_numpy() == pytest.approx(seconds.to_numpy(), rel=0.01)
    assert rows.loc[4, "cost"] == pytest.approx(4 * rows.loc[4, "time"] / 3600)


def test_all_numbers_of_nodes_that_matter_are_listed(found):
    for _, rows in found["optima"].groupby(["job", "batch_per_worker"]):
        assert set(NODES) <= set(rows["nodes"])
        assert {"knee", "fastest", "cheapest"} <= set(", ".join(rows["best_for"]).split(", "))
        assert rows["best_for"].str.contains("knee").sum() == 1
    assert found["optima"].loc[found["optima"]["nodes"] > 16, "extrapolated"].all()


def test_one_number_of_nodes_answers_nothing():
    rows = fit_all(launches(nodes=(3,)))
    assert rows["optima"].empty and len(rows["fits"])


def test_time_to_an_accuracy_is_asked_where_steps_are_known():
    fitted = fit_curves(measured_points(*tables(launches())), draws=10)
    law = StepsToAccuracy(np.array([[100.0, 50_000.0]] * 6), np.zeros(6))
    key = dict(zip(KEY, ("fashion_cnn", "fashion_mnist", "official"), strict=True))
    row = key | {"basis": BY_EPOCHS, "kind": "fitted", "missing": "", "law": law}
    rows = fitted_tables(fitted, [row])["optima"]
    known = rows[rows["job"] == "run"]
    assert set(known["batch_per_worker"]) == {32, 128}
    rows = fitted_tables(fitted, [row | {"model": "resnet50"}])["optima"]
    assert "run" not in set(rows["job"])

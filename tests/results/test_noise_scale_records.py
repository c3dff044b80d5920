"""The noise scale: known noise is recovered, the schema holds, the table has every group."""

import json

import numpy as np
import pytest

import make_records as make
from mistakes import user_error
from nodewise.core.schema import json_text
from nodewise.predict.steps_to_accuracy import find_steps
from nodewise.results.noise_scale import NoiseScale, group_squares
from nodewise.results.record import record_json
from nodewise.results.tables import build_tables

RECORD = json.loads(record_json(make.record(make.cell())))
ABOUT = {name: RECORD[name] for name in ("started_at", "finished_at", "provenance")}
ABOUT |= {"data": RECORD["data"] | {"dataset": "garments"}, "weights": None, "seed": 1}
SMALL, BIG = 32, 512


def measured(points, small=SMALL, big=BIG, model="mlp"):
    tree = {"model": model, "small_batch": small, "big_batch": big, "points": points}
    return NoiseScale.model_validate_json(json.dumps(ABOUT | tree))


def point(step, noise, signal):
    """Return a point with exactly this noise and signal, of four groups."""
    squares = {"small_squares": SMALL, "big_squares": BIG}
    return {"step": step} | {name: [signal + noise / of] * 4 for name, of in squares.items()}


def gradients(mean, spread, batch, seed=1):
    """Yield mean gradients of batches; gradients of examples have independent normal noise."""
    rng = np.random.default_rng(seed)
    while True:
        examples = rng.normal(mean, spread, size=(batch, len(mean)))
        yield examples.mean(axis=0).astype(np.float32)


def test_gradients_of_known_noise_give_it_back():
    mean, spread = np.full(40, 0.5), np.linspace(0.5, 3.0, 40)
    noise, signal = float(spread @ spread), float(mean @ mean)
    groups = 400
    small, big = zip(*group_squares(gradients(mean, spread, 4), 8, groups), strict=True)
    result = measured([{"step": 0, "small_squares": small, "big_squares": big}], small=4, big=32)
    found_noise, found_signal = result.estimates(result.points[0])
    assert len(found_noise) == groups
    for found, exact in ((found_noise, noise), (found_signal, signal)):
        error = found.std(ddof=1) / np.sqrt(groups)
        assert error < 0.05 * exact
        assert abs(found.mean() - exact) < 3 * error


def test_the_squares_are_of_the_gradients_and_of_their_mean():
    stream = (np.array(one, np.float32) for one in ([3, 0], [0, 4], [1, 1], [1, 1], [9, 9]))
    assert list(group_squares(stream, 2, 2)) == [(12.5, 6.25), (2.0, 2.0)]
    assert next(stream).tolist() == [9, 9]


@pytest.fixture
def table(tmp_path):
    result = measured([point(0, 100.0, 10.0), point(50, 100.0, 1.0), point(200, 100.0, 0.1)])
    less_than_noise = {"step": 0, "small_squares": [1.0, 1.0], "big_squares": [0.01, 0.01]}
    lost = measured([less_than_noise], model="cnn")
    for one in (result, lost):
        (tmp_path / f"{one.model}.json").write_text(json_text(one))
    files = [tmp_path / "mlp.json", tmp_path / "cnn.json"]
    return build_tables([], None, noise_scale_paths=files)["noise_scale"]


def test_the_table_has_a_row_per_point_and_group(table):
    mlp = table[table["model"] == "mlp"]
    assert len(mlp) == 3 * 4
    assert mlp["group"].tolist() == [1, 2, 3, 4] * 3
    assert mlp["noise_scale"].to_numpy() == pytest.approx(np.repeat([10.0, 100.0, 1000.0], 4))
    assert set(mlp["data_origin"]) == {"official"}
    cnn = table[table["model"] == "cnn"]  # whose signal is lost in noise
    assert (cnn["signal"] < 0).all() and cnn["noise_scale"].isna().all()


def test_a_model_is_measured_once(tmp_path):
    files = [tmp_path / name / "noise.json" for name in ("one", "two")]
    for file in files:
        file.parent.mkdir()
        file.write_text(json_text(measured([point(0, 1.0, 1.0)])))
    said = user_error(build_tables, [], None, noise_scale_paths=files)
    assert "two/noise.json: duplicate" in said


def test_the_critical_batch_is_the_median_of_the_points(table):
    none = build_tables([], None)
    steps = {row["model"]: row for row in find_steps(none["epochs"], none["cells"], table)}
    law = steps["mlp"]["law"]
    assert law.critical_batch == pytest.approx(100)
    assert law.critical_batch_interval == pytest.approx((10, 1000))
    assert steps["cnn"]["critical_batch"] == np.inf
    assert {row["basis"] for row in steps.values()} == {"noise scale"}

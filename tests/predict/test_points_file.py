"""`nodewise fit` with published curves and `nodewise predict --at` with many points at once."""

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from nodewise.cli import app
from nodewise.predict.fit_file import fit_measurements
from nodewise.predict.points_file import Point, predict_points
from nodewise.predict.published_curves import read_published, scaling_of
from nodewise.predict.similar_curves import SimilarCurves, Target
from nodewise.results.curves import MOST_NODES
from nodewise.results.importers import import_curves
from nodewise.results.importers.scaling_curves import parse_unit

COLUMNS = (
    *("curve", "source_url", "algorithm", "scaling", "devices_per_node", "n_devices", "n_nodes"),
    *("batch_per_device", "global_batch", "quantity", "value", "unit", "note"),
)


def step_s(n: int, batch: float) -> float:
    return 0.01 + 1e-3 * batch + 0.004 * (n - 1) / n


def row(curve, n, quantity, unit, value, scaling="weak", **more):
    row = {"curve": curve, "n_devices": n, "quantity": quantity, "unit": unit, "value": value}
    about = {"scaling": scaling, "devices_per_node": 4, "n_nodes": max(1, n // 4)}
    return row | about | {"source_url": "https://example.org", "algorithm": "unknown"} | more


# For each curve: the rows of 1, 2, 4 and 8 devices, and the true value on 16 devices.
def curves():
    known = {"batch_per_device": 32}
    strong = {"scaling": "strong", "global_batch": 512}
    kinds = {
        "images": lambda n: ("throughput", "img/s", n * 32 / step_s(n, 32), known),
        "thousands": lambda n: (
            *("throughput", "kimages/s", n * 0.032 / step_s(n, 32)),
            {"global_batch": 32 * n},
        ),
        "steps": lambda n: ("throughput", "steps/s", 1 / step_s(n, 32), known),
        "tokens": lambda n: ("throughput", "tok/s", n * 5e4 / step_s(n, 32), {}),
        "step": lambda n: ("step_time", "ms", 1e3 * step_s(n, 32), known),
        "epoch": lambda n: ("run_time", "h/epoch", step_s(n, 32) / n, {}),
        "strong": lambda n: ("run_time", "min", 100 * step_s(n, 512 / n), strong),
    }

    def made(name, n):
        *values, more = kinds[name](n)
        return row(name, n, *values, **more)

    return {name: ([made(name, n) for n in (1, 2, 4, 8)], made(name, 16)) for name in kinds}


def write(path, rows, columns=COLUMNS):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


def run(*arguments):
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    return result


def test_every_point_is_answered_in_order_and_in_the_unit_of_its_curve(tmp_path):
    truth = curves()
    write(tmp_path / "curves.csv", [row for rows, _ in truth.values() for row in rows])
    asked = [last for _, last in truth.values()]
    columns = ("curve", "n_devices", "n_nodes", "batch_per_device", "global_batch")
    points = [asked[0] | {"curve": "unheard of"}, *asked, asked[1] | {"n_devices": "many"}]
    write(tmp_path / "points.csv", points, columns)
    run("fit", tmp_path / "curves.csv", "-o", tmp_path / "fit.json")
    answered = run("predict", tmp_path / "fit.json", "--at", tmp_path / "points.csv", "--json")
    rows = json.loads(answered.stdout)
    assert [row["curve"] for row in rows] == [row["curve"] for row in points]
    assert "'unheard of' is not in the fit" in rows[0]["error"]
    assert "n_devices: must be a whole number" in rows[-1]["error"]
    for found, true in zip(rows[1:-1], asked, strict=True):
        assert set(columns) <= set(found)
        assert (found["n_devices"], found["unit"]) == (16, true["unit"])
        assert found["value"] == pytest.approx(true["value"], rel=0.1)
        assert found["low"] <= found["value"] <= found["high"]
        assert not found["extrapolated"]
    shown = run("predict", tmp_path / "fit.json", "--at", tmp_path / "points.csv")
    assert "img/s" in shown.output


def test_curves_in_units_of_their_own_go_on_as_similar_published_curves(tmp_path):
    rows, _ = curves()["images"]
    write(tmp_path / "curves.csv", rows)
    (mine,) = read = import_curves(tmp_path / "curves.csv").curves
    file = fit_measurements(import_curves(tmp_path / "curves.csv"), draws=2)
    (found,) = predict_points(file, [Point({"curve": "images", "n_devices": "16", "n_nodes": "4"})])
    similar = SimilarCurves([*read_published(), *map(scaling_of, read)])
    ends = 16 * np.exp(similar.predict(scaling_of(mine), [Target(16, 4, 32)])[:, 0])
    assert [found["value"], found["low"], found["high"]] == pytest.approx(ends.tolist())


@pytest.mark.parametrize(
    ("quantity", "unit", "clock", "value"),
    [
        ("throughput", "samples/sec", "samples_per_s", 1),
        ("throughput", "img/min", "samples_per_s", 1 / 60),
        ("throughput", "M samples/s", "samples_per_s", 1e6),
        ("throughput", "mels/s", "samples_per_s", 1),
        ("throughput", "it/s", "steps_per_s", 1),
        ("step_time", "ms/step", "step_time_s", 1e-3),
        ("step_time", "s/100 batches", "step_time_s", 0.01),
        ("run_time", "days", "epoch_time_s", 86_400),
        ("run_time", "h/epoch", "epoch_time_s", 3600),
    ],
)
def test_units_are_read(quantity, unit, clock, value):
    assert parse_unit(quantity, unit) == (clock, pytest.approx(value))


def test_a_batch_that_a_row_lacks_follows_from_the_others(tmp_path):
    strong = [row("a", n, "run_time", "s", 9 / n, "strong") for n in (1, 2, 3)]
    known = strong[1] | {"batch_per_device": 30}
    write(tmp_path / "curves.csv", [strong[0], known, strong[2]])
    (curve,) = import_curves(tmp_path / "curves.csv").curves
    assert (curve.global_batch, curve.batch_known, curve.scaling) == (60, True, "strong")
    assert [point.hosts for point in curve.measured] == [1, 1, 1]
    write(tmp_path / "curves.csv", strong)
    (curve,) = import_curves(tmp_path / "curves.csv").curves
    assert (curve.global_batch, curve.batch_known) == (MOST_NODES, False)
    assert any(note.startswith("no batch given") for note in curve.notes)


def test_a_malformed_row_has_an_error_and_the_others_are_answered(tmp_path):
    rows, _ = curves()["images"]
    write(tmp_path / "curves.csv", rows)
    run("fit", tmp_path / "curves.csv", "-o", tmp_path / "fit.json")
    lines = ["curve,n_devices,n_nodes", "images,16,4", "images,16", "images,16,4,7", "images,x,4"]
    (tmp_path / "points.csv").write_text("\n".join(lines))
    shown = run("predict", tmp_path / "fit.json", "--at", tmp_path / "points.csv", "--json")
    good, short, long, word = json.loads(shown.stdout)
    assert good["low"] < good["value"] < good["high"]
    assert short["error"] == "has 2 values for 3 columns"
    assert long["error"] == "has 4 values for 3 columns"
    assert word["error"].startswith("n_devices: must be a whole number")
    assert [row["curve"] for row in (short, long, word)] == ["images"] * 3

"""`nodewise fit` with published curves and `nodewise predict --at` with many points at once."""

import json
import re

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from commands import ask, refusal, run
from nodewise.predict.fit_file import fit_measurements
from nodewise.predict.question_files import predict_points
from nodewise.results.curve_units import parse_unit
from nodewise.results.curves import MOST_NODES
from nodewise.results.importers import import_curves


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
    thousands = ("throughput", "kimages/s")
    kinds = {
        "images": lambda n: ("throughput", "img/s", n * 32 / step_s(n, 32), known),
        "thousands": lambda n: (*thousands, n * 0.032 / step_s(n, 32), {"global_batch": 32 * n}),
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


def write(path, rows):
    pd.DataFrame(rows).to_csv(path, index=False)


def curves_of(path, rows):
    write(path, rows)
    return import_curves(path).curves


def answers(tmp_path, rows, points):
    """Fit rows, and return the answers to the text of a file of points."""
    write(tmp_path / "curves.csv", rows)
    run("fit", tmp_path / "curves.csv", "-o", tmp_path / "fit.json")
    (tmp_path / "points.csv").write_text(points)
    return ask("predict", tmp_path / "fit.json", "--at", tmp_path / "points.csv")


def test_every_point_is_answered_in_order_and_in_the_unit_of_its_curve(tmp_path):
    truth = curves()
    asked = [last for _, last in truth.values()]
    columns = ("curve", "n_devices", "n_nodes", "batch_per_device", "global_batch")
    points = [asked[0] | {"curve": "unheard of"}, *asked, asked[1] | {"n_devices": "many"}]
    lines = [",".join(columns), *(",".join(f"{row.get(c, '')}" for c in columns) for row in points)]
    measured = [row for rows, _ in truth.values() for row in rows]
    rows = answers(tmp_path, measured, "\n".join(lines))
    assert [row["curve"] for row in rows] == [row["curve"] for row in points]
    assert "'unheard of' is not in the fit" in rows[0]["error"]
    assert rows[-1]["error"].startswith("n_devices: ")
    for found, true in zip(rows[1:-1], asked, strict=True):
        assert set(columns) <= set(found)
        assert (found["n_devices"], found["unit"]) == (16, true["unit"])
        assert found["value"] == pytest.approx(true["value"], rel=0.1)
        assert found["low"] <= found["value"] <= found["high"]
        assert not found["extrapolated"]
    shown = run("predict", tmp_path / "fit.json", "--at", tmp_path / "points.csv")
    assert all(told in shown.output for told in ("img/s", "Batch per device", "Global batch"))


@pytest.mark.parametrize(
    ("quantity", "unit", "clock", "value"),
    [
        ("throughput", "samples/sec", "samples_per_s", 1),
        ("throughput", "img/min", "samples_per_s", 1 / 60),
        ("throughput", "M samples/s", "samples_per_s", 1e6),
        ("throughput", "it/s", "steps_per_s", 1),
        ("step_time", "ms/step", "step_time_s", 1e-3),
        ("step_time", "s/100 batches", "step_time_s", 0.01),
        ("run_time", "h/epoch", "epoch_time_s", 3600),
        ("step_time", "ns", "step_time_s", 1e-9),
        ("step_time", "\N{MICRO SIGN}s", "step_time_s", 1e-6),
        ("step_time", "\N{GREEK SMALL LETTER MU}s", "step_time_s", 1e-6),
        ("throughput", "kimages/min", "samples_per_s", 1000 / 60),
        ("throughput", "img/s (mean of 5)", "samples_per_s", 1),
    ],
)
def test_units_are_read(quantity, unit, clock, value):
    assert parse_unit(quantity, unit) == (clock, pytest.approx(value))


@pytest.mark.parametrize(
    ("quantity", "unit"),
    [
        ("step_time", "fortnight"),
        ("step_time", "ms/image"),
        ("run_time", "epochs"),
        ("throughput", "img/fortnight"),
        ("throughput", "steps/s/GPU"),
    ],
)
def test_a_unit_that_is_not_known_is_refused_with_the_known_ones(tmp_path, quantity, unit):
    write(tmp_path / "curves.csv", [row("a", 1, quantity, unit, 30)])
    shown = refusal("fit", tmp_path / "curves.csv", "-o", tmp_path / "fit.json")
    assert re.search(r"row 2, value and unit: '.*' is not known: must be .* such as", shown)


@pytest.mark.parametrize(
    "unit", ["img/s/GPU", "images/sec per device", "img/TPU/s", "img/s (per GPU)"]
)
def test_rates_of_each_device_are_multiplied_and_answered_in_their_own_unit(tmp_path, unit):
    rates = {1: 300, 2: 290, 4: 280, 8: 270}
    rows = [row("a", n, "throughput", unit, rate, batch_per_device=64) for n, rate in rates.items()]
    (curve,) = curves_of(tmp_path / "curves.csv", rows)
    for point in curve.measured:
        assert point.step_time_s == pytest.approx(64 / rates[point.nodes])
    (found,) = answers(tmp_path, rows, "curve,n_devices\na,8\n")
    assert (found["value"], found["unit"]) == (pytest.approx(270), unit)


@pytest.mark.parametrize("scaling", ["weak", "strong"])
def test_without_batches_neither_a_batch_nor_what_depends_on_it_is_made_up(tmp_path, scaling):
    fit, known = tmp_path / "fit.json", {"step_time": ("s", 9e6), "throughput": ("img/s", 1e6 / 9)}
    for quantity, (unit, time_s) in known.items():
        of_steps = quantity == "step_time"
        write(tmp_path / "curves.csv", [row("a", n, quantity, unit, 9, scaling) for n in (1, 2)])
        assert "Batches" not in run("fit", tmp_path / "curves.csv", "-o", fit).stdout
        one = ask("optimum", fit, "--nodes", 1)[0]["nodes"][0]
        assert one["batch_per_worker"] is one["samples" if of_steps else "step_s"] is None
        assert one["time"] == pytest.approx(time_s)
        assert ask("next", fit)[0]["batch_per_worker"] is None
        assert not of_steps or "need batches" in refusal("optimum", fit, "--examples", 9)


def test_rows_that_contradict_themselves_are_named(tmp_path):
    rows = [
        row("a", 1, "throughput", "img/s", 300, n_nodes=4, batch_per_device=64),
        row("a", 2, "throughput", "img/s", 600, n_nodes=1, batch_per_device=64, global_batch=512),
        row("a", 3, "throughput", "img/s", 900, n_nodes=3, batch_per_device=64, global_batch=190),
    ]
    (curve,) = curves_of(tmp_path / "curves.csv", rows)
    (note,) = [note for note in curve.notes if "cannot hold them" in note]
    assert note.startswith("curves.csv: row 2 and 1 more: ")  # 190 is 192, rounded
    first, second, _ = curve.measured
    assert (first.hosts, second.batch_per_worker) == (None, 64)


@pytest.mark.parametrize(
    ("scaling", "batches", "wrong"),
    [
        ("strong", (512, 256, 256), "not the same"),
        ("strong", (64, 64, 64), "not the same"),
        ("weak", (512, 256, 128), "the same"),
        ("strong", (512, 256, 128), ""),
        ("weak", (64, 64, 32), ""),
        ("weak", (1, 1, 1), ""),
        ("unknown", (512, 256, 128), ""),
    ],
)
def test_a_scaling_that_the_batches_contradict_is_not_used(tmp_path, scaling, batches, wrong):
    rows = [
        row("a", n, "throughput", "img/s", 300 * n, scaling, batch_per_device=batch)
        for n, batch in zip((1, 2, 4), batches, strict=True)
    ]
    (curve,) = curves_of(tmp_path / "curves.csv", rows)
    notes = [note for note in curve.notes if note.startswith("scaling")]
    assert curve.scaling == ("unknown" if wrong else scaling)
    assert len(notes) == bool(wrong)
    assert not wrong or f"but the global batch is {wrong} at all points" in notes[0]


@pytest.mark.parametrize(
    ("quantity", "unit", "value"), [("step_time", "s", 0.1), ("throughput", "img/s", 320)]
)
def test_an_interval_at_another_batch_holds_equal_steps(tmp_path, quantity, unit, value):
    grown = 1.0 if quantity == "step_time" else 8.0
    rows = [
        row("a", n, quantity, unit, value * (grown if n > 1 else 1), batch_per_device=32)
        for n in (1, 8)
    ]
    points = "curve,n_devices,batch_per_device\na,8,32\na,8,40\na,8,400\na,8,1\n"
    same, near, more, less = answers(tmp_path, rows, points)
    assert [found["extrapolated"] for found in (same, near, more, less)] == [False] * 2 + [True] * 2
    for found, batch in ((near, 40), (more, 400), (less, 1)):
        ends = sorted([same["value"], same["value"] * batch / 32])
        assert found["low"] < ends[0] < ends[1] < found["high"]


def test_wrong_points_have_an_error_and_the_others_are_answered(tmp_path):
    points = {
        "images,16,4,32,512": None,
        "images,16,16,,512": None,
        "images,16,,32,500": None,  # rounded
        "images,16,99,,": "n_nodes: must be at most n_devices, 16",
        "images,16,4,128,1024": "global_batch: must be n_devices × batch_per_device, 2048",
        "images,16": "has 2 values for 5 columns",
        "images,16,4,,,7": "has 6 values for 5 columns",
        "strong,512,,,": None,
        "strong,1024,,,": "n_devices: must be at most the global batch, 512",
    }
    rows = [row for name in ("images", "strong") for row in curves()[name][0]]
    header = "curve,n_devices,n_nodes,batch_per_device,global_batch"
    found = answers(tmp_path, rows, "\n".join([header, *points]))
    assert [one.get("error") for one in found] == [*points.values()]
    assert [one["curve"] for one in found] == ["images"] * 7 + ["strong"] * 2
    for one in found:
        assert "error" in one or one["low"] < one["value"] < one["high"]


def test_a_strong_curve_does_not_keep_others_from_being_predicted(tmp_path):
    strong = [row("a", n, "run_time", "s", 90 / n, "strong", global_batch=512) for n in (1, 2, 4)]
    write(tmp_path / "curves.csv", strong + curves()["images"][0])
    run("fit", tmp_path / "curves.csv", "-o", tmp_path / "fit.json")
    for nodes, curves_told in ((1024, ["images"]), ("8,1024", ["a", "images", "images"])):
        shown = run("predict", tmp_path / "fit.json", "--nodes", nodes, "--json")
        assert [found["curve"] for found in json.loads(shown.stdout)] == curves_told
        assert "a: no rows from 1,024 devices on, as its global batch is smaller" in shown.stderr


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    path = tmp_path_factory.mktemp("fitted") / "curves.csv"
    write(path, [row for rows, _ in curves().values() for row in rows])
    return fit_measurements(import_curves(path))


CELLS = st.sampled_from(["", " ", "images", "strong", "0", "1", "8", "16", "65536", "0.5", "1e15"])


@settings(max_examples=50, deadline=None)
@given(rows=st.lists(st.lists(CELLS, min_size=2, max_size=6), max_size=6))
def test_every_row_has_one_answer_or_error(tmp_path_factory, fitted, rows):
    path = tmp_path_factory.mktemp("points") / "points.csv"
    lines = ["curve,n_devices,n_nodes,batch_per_device,global_batch", *map(",".join, rows)]
    path.write_text("\n".join(lines) + "\n")
    found = predict_points(fitted, path)
    json.dumps(found, allow_nan=False)
    assert [each["curve"] or "" for each in found] == [cells[0].strip() for cells in rows]
    for each in found:
        assert "error" in each or each["low"] <= each["value"] <= each["high"]


@pytest.mark.timeout(20)
def test_a_point_has_the_same_answer_alone_and_among_thousands(tmp_path, fitted):
    names, most = ("images", "strong", "unknown"), 6_000
    many, few = tmp_path / "many.csv", tmp_path / "few.csv"
    lines = [f"{name},{n}" for n in range(1, most + 1) for name in names]
    many.write_text("\n".join(["curve,n_devices", *lines]))
    found = predict_points(fitted, many)
    assert len(found) == len(lines)
    for n in (1, 7, most):
        few.write_text("\n".join(["curve,n_devices", *lines[3 * n - 3 : 3 * n]]))
        assert predict_points(fitted, few) == found[3 * n - 3 : 3 * n]


def test_the_file_of_the_measurements_is_not_overwritten(tmp_path):
    path = tmp_path / "curves.csv"
    write(path, curves()["images"][0])
    before = path.read_bytes()
    shown = refusal("fit", path, "-o", tmp_path / "." / "curves.csv")
    assert "holds the measurements; name another file" in shown
    assert path.read_bytes() == before


def test_a_batch_that_a_row_lacks_follows_from_the_others(tmp_path):
    strong = [row("a", n, "run_time", "s", 9 / n, "strong") for n in (1, 2, 3)]
    known = strong[1] | {"batch_per_device": 30}
    (curve,) = curves_of(tmp_path / "curves.csv", [strong[0], known, strong[2]])
    assert (curve.global_batch, curve.batch_known, curve.scaling) == (60, True, "strong")
    assert [point.hosts for point in curve.measured] == [1, 1, 1]
    (curve,) = curves_of(tmp_path / "curves.csv", strong)
    assert (curve.global_batch, curve.batch_known) == (MOST_NODES, False)
    assert any(note.startswith("no batch given") for note in curve.notes)

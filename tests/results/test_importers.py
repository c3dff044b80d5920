"""Files of every format are recognised and become points of curves; plug-ins add formats."""

from pathlib import Path

import pandas as pd
import pytest

import plugins
from mistakes import user_error
from nodewise.predict.fit_file import read_fit
from nodewise.results.convert import convert
from nodewise.results.curves import CurveRow, measurements
from nodewise.results.importers import IMPORTERS, import_curves, read_rows

FILES = Path("tests/results/files")
# What each log says: curve, nodes, batch per worker (or of all), step time in s; None if unknown.
LOGS = {
    "tf_cnn_benchmarks": ("tf_cnn.txt", "resnet50", 4, 64, 256 / 1400.2),
    "horovod_benchmark": ("horovod.txt", "ResNet50", 4, 32, 32 / 145),
    "keras_console": ("keras.txt", None, None, None, 0.032),
    "tensorflow_rates": ("estimator.txt", None, None, None, 0.08),
    "tensorboard": ("events.out.tfevents.1700000000.node", None, None, None, 0.0976),
    "lightning_csv": ("metrics.csv", None, None, None, 128 / 665.6),
    "trainer_console": ("trainer_console.txt", None, 8, 16, 0.4),
    "trainer_state": ("trainer_state.json", None, None, 128 / 8, 0.4),
    "mlperf_log": ("mlperf.txt", "ssd", None, 1024 / 8, 50.5 * 1024 / 117266),
    "mlperf_0_5": ("mlperf_0_5.txt", "ssd", None, None, 4709.7066 * 8 * 16),
    "step_times": ("step_times.json", "my_cnn", 4, 32, 0.031),
}
EXAMPLES = {FILES / said[0]: name for name, said in LOGS.items()}
EXAMPLES |= dict.fromkeys(
    (FILES / "scaling_curves.csv", Path("data/templates/measurements.csv")), "csv"
)


def test_every_importer_has_an_example():
    assert set(EXAMPLES.values()) == set(IMPORTERS)


@pytest.mark.parametrize(("path", "name"), EXAMPLES.items(), ids=str)
def test_a_file_is_recognised_by_its_importer_alone(path, name):
    assert [one for one in IMPORTERS if IMPORTERS[one].sniff(path)] == [name]
    assert set(IMPORTERS[name].read(path)) <= set(CurveRow.model_fields)


@pytest.mark.parametrize(("file", "curve", "nodes", "batch", "step_s"), LOGS.values())
def test_a_log_becomes_a_point_of_a_curve(file, curve, nodes, batch, step_s):
    given = {"curve": curve and "mine", "devices": nodes or 8, "batch": batch or 16}
    rows = convert([FILES / file], given)
    (found,) = measurements(rows, FILES / file).curves
    (point,) = found.measured
    assert found.name == ("mine" if curve else "files")
    assert (point.nodes, point.batch_per_worker) == (nodes or 8, batch or 16)
    assert point.step_time_s == pytest.approx(step_s, rel=0.01)


@pytest.mark.parametrize("name", IMPORTERS)
@pytest.mark.parametrize("content", [b"", b"\0\xff" * 9, b"Dear Sir,\nwe measured\n", b"{}"])
def test_no_importer_takes_any_file_for_its_own(tmp_path, name, content):
    path = tmp_path / "file.log"
    path.write_bytes(content)
    assert not IMPORTERS[name].sniff(path)
    assert ("--pattern" if content else "is empty") in user_error(import_curves, path)
    assert "file.log" in user_error(import_curves, path, name)


def test_files_without_the_usual_names_are_recognised(tmp_path):
    for name, other in (("trainer_state.json", "last.json"), ("events.out.tfevents.1.n", "ev")):
        path = tmp_path / other
        content = b"".join(one.read_bytes() for one in FILES.iterdir() if one.name[:6] == name[:6])
        path.write_bytes(content)
        assert len(read_rows(path))


def test_what_a_file_lacks_is_named(tmp_path):
    assert "curve, nodes; `nodewise import`" in user_error(import_curves, FILES / "keras.txt")
    for none in (tmp_path, tmp_path / "none.csv"):
        assert f"{none}: cannot be read" in user_error(import_curves, none)
    said = user_error(import_curves, Path("data/templates/measurements.csv"), "xml")
    assert said.startswith("format xml: unknown; allowed: ")


def test_a_byte_order_mark_in_json_is_not_read(tmp_path):
    for name in ("step_times.json", "trainer_state.json"):
        path = tmp_path / name
        path.write_bytes(b"\xef\xbb\xbf" + (FILES / name).read_bytes())
        assert read_rows(path).equals(read_rows(FILES / name))


ROW = {"curve": "a", "nodes": 2, "batch_per_worker": 8, "step_time_s": 0.5, "location": "log:7"}


@pytest.mark.parametrize("wrong", [{"step_time_s": None}, {"nodes": 0}])
def test_rows_of_any_importer_are_checked_and_located(wrong):
    assert user_error(measurements, pd.DataFrame([ROW | wrong]), FILES / "keras.txt")[:5] == "log:7"


@pytest.mark.slow
def test_the_documented_plugin_adds_a_format_to_nodewise_fit(tmp_path):
    folder = tmp_path / "plugins"
    plugins.declare(folder, "nodewise.importers", "toy_format")
    (folder / "toy_format.py").write_text(plugins.example("my_format.py"))
    log = tmp_path / "run.log"
    log.write_text("1 nodes x 64: 0.2 s\n2 nodes x 64: 0.3 s\n4 nodes x 64: 0.4 s\n")

    fit = (folder, "-m", "nodewise", "fit", log, "-o", tmp_path / "fit.json")
    plugins.run(*fit)
    (curve,) = read_fit(tmp_path / "fit.json").curves
    assert [point.step_time_s for point in curve.measured] == [0.2, 0.3, 0.4]
    log.write_text("1 nodes x 64: 0.2 s\nnonsense\n")
    assert f"{log}:2: must be like" in plugins.run(*fit, code=2)

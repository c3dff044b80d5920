"""Files of every format are recognised and give the same curves; plug-ins add formats."""

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import plugins
from nodewise.core.errors import UserError
from nodewise.predict.fit_file import read_fit
from nodewise.results.curve_rows import CurveRow, measurements
from nodewise.results.importers import IMPORTERS, import_curves, read_rows

EXAMPLES = {
    "data/templates/measurements.csv": "csv",
    "tests/results/files/scaling_curves.csv": "csv",
    "tests/results/files/tf_cnn.txt": "tf_cnn_benchmarks",
    "tests/results/files/horovod.txt": "horovod_benchmark",
    "tests/results/files/keras.txt": "keras_console",
    "tests/results/files/events.out.tfevents.1700000000.node": "tensorboard",
    "tests/results/files/metrics.csv": "lightning_csv",
    "tests/results/files/trainer_state.json": "trainer_state",
    "tests/results/files/mlperf.txt": "mlperf_log",
    "tests/results/files/timeline.json": "horovod_timeline",
    "tests/results/files/step_times.json": "step_times",
}


@pytest.mark.parametrize(("path", "name"), EXAMPLES.items())
def test_a_file_is_recognised_by_its_importer_alone(path, name):
    assert [one for one in IMPORTERS if IMPORTERS[one].sniff(Path(path))] == [name]
    rows = IMPORTERS[name].read(Path(path))
    assert set(rows) <= set(CurveRow.model_fields)


@pytest.mark.parametrize("path", [path for path in EXAMPLES if "/files/" not in path])
def test_a_table_has_all_that_curves_need(path):
    rows, curves = read_rows(Path(path)), import_curves(Path(path)).curves
    assert {curve.name for curve in curves} == set(rows["curve"])
    assert sum(point.repeats for curve in curves for point in curve.measured) == len(rows)


def test_every_importer_has_an_example():
    assert set(EXAMPLES.values()) == set(IMPORTERS)


@pytest.mark.parametrize("name", IMPORTERS)
@pytest.mark.parametrize("content", [b"", b"\0\xff" * 9, b"Dear Sir,\nwe measured\n", b"{}"])
def test_no_importer_takes_any_file_for_its_own(tmp_path, name, content):
    path = tmp_path / "file.log"
    path.write_bytes(content)
    assert not IMPORTERS[name].sniff(path)
    told = ".*--format" if content else "is empty"
    with pytest.raises(UserError, match=rf"file\.log: {told}"):
        import_curves(path)
    with pytest.raises(UserError, match=r"file\.log"):
        import_curves(path, name)


def test_a_csv_file_that_nobody_recognises_is_told_the_columns_that_it_needs(tmp_path):
    path = tmp_path / "file.csv"
    path.write_text("name,workers,time\na,1,0.5\n")
    with pytest.raises(UserError, match=r"file\.csv: .*curve"):
        import_curves(path)


def test_fit_names_all_that_a_log_does_not_say():
    with pytest.raises(UserError, match="curve, nodes; `nodewise import`"):
        import_curves(Path("tests/results/files/keras.txt"))


def test_values_with_units_may_be_large(tmp_path):
    path = tmp_path / "curve.csv"
    path.write_text("curve,n_devices,quantity,value,unit\na,1,throughput,3e15,FLOP/s\n")
    assert import_curves(path).curves[0].clock == "samples_per_s"


def test_a_byte_order_mark_in_json_is_not_read(tmp_path):
    path = tmp_path / "steps.json"
    path.write_bytes(b"\xef\xbb\xbf" + Path("tests/results/files/step_times.json").read_bytes())
    assert len(read_rows(path)) == len(read_rows(Path("tests/results/files/step_times.json")))


def test_a_folder_and_a_missing_file_are_refused(tmp_path):
    for path in (tmp_path, tmp_path / "none.csv"):
        with pytest.raises(UserError, match=f"{path}: cannot be read"):
            import_curves(path)


def test_an_unknown_format_is_answered_by_those_that_are_known():
    with pytest.raises(UserError, match=r"^format xml: unknown; allowed: .*csv"):
        import_curves(Path("data/templates/measurements.csv"), "xml")


def test_a_median_of_repeats_keeps_its_noise(tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    row = {"curve": "a", "nodes": 2, "batch_per_worker": 8, "step_time_s": 0.5}
    rows = pd.DataFrame([row | {"noise": 0.02, "repeats": 5}])
    (point,) = measurements(rows, path).curves[0].measured
    assert (point.step_time, point.noise, point.repeats) == (0.5, 0.02, 5)


@pytest.mark.parametrize("wrong", [{"step_time_s": None}, {"compute_s": 9.0}, {"nodes": 0}])
def test_rows_of_any_importer_are_checked_and_located(tmp_path, wrong):
    path = tmp_path / "file"
    path.write_text("")
    row = {"curve": "a", "nodes": 2, "batch_per_worker": 8, "step_time_s": 0.5}
    rows = pd.DataFrame([row | {"location": "log:7"} | wrong]).astype({"step_time_s": float})
    with pytest.raises(UserError, match=r"^log:7\b"):
        measurements(rows, path)


@pytest.mark.slow
def test_the_documented_plugin_adds_a_format_to_nodewise_fit(tmp_path):
    folder = tmp_path / "plugins"
    plugins.declare(folder, "nodewise.importers", "toy_format")
    (folder / "toy_format.py").write_text(plugins.example("my_format.py"))
    log = tmp_path / "run.log"
    log.write_text("1 nodes x 64: 0.2 s\n2 nodes x 64: 0.3 s\n4 nodes x 64: 0.4 s\n")

    def fit() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "nodewise", "fit", str(log), "-o", str(tmp_path / "fit.json")],
            env=os.environ | {"PYTHONPATH": str(folder)},
            capture_output=True,
            text=True,
            check=False,
        )

    done = fit()
    assert done.returncode == 0, done.stderr
    (curve,) = read_fit(tmp_path / "fit.json").curves
    assert [point.step_time for point in curve.measured] == [0.2, 0.3, 0.4]
    log.write_text("1 nodes x 64: 0.2 s\nnonsense\n")
    assert (done := fit()).returncode == 2
    assert f"{log}:2: must be like" in done.stdout + done.stderr

"""`nodewise import` turns logs of other tools into one table without guessing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nodewise.cli import app
from nodewise.core.errors import UserError
from nodewise.results.importers import import_curves

FILES = Path("tests/results/files")
TEMPLATE = Path("data/templates/measurements.csv")
# What each file says: curve, nodes, batch per worker, step time in s; None if it does not say.
SAID = {
    "tf_cnn.txt": ("resnet50", 4, 64, 256 / 1400.2),
    "horovod.txt": ("ResNet50", 4, 32, 32 / 145),
    "keras.txt": (None, None, None, 0.032),
    "events.out.tfevents.1700000000.node": (None, None, None, 0.1),
    "metrics.csv": (None, None, None, 128 / 652.8),
    "trainer_state.json": (None, None, None, 0.4),
    "mlperf.txt": ("ssd", None, None, 50.5 * 1024 / 117266),
    "timeline.json": (None, 2, None, 0.1),
    "step_times.json": ("my_cnn", 4, 32, 0.031),
}


def run(*arguments) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["import", *map(str, arguments)])
    # `nodewise.cli.main` turns this error into exit code 2.
    if isinstance(done.exception, UserError):
        return 2, str(done.exception)
    return done.exit_code, " ".join(done.output.split())


@pytest.mark.parametrize(("name", "said"), SAID.items())
def test_a_log_becomes_a_point_of_a_curve(tmp_path, name, said):
    curve, nodes, batch, step_s = said
    whole = {"trainer_state.json": 128, "mlperf.txt": 1024}  # the batch of all devices together
    given = ["-o", tmp_path / "mine.csv"]
    given += [] if nodes else ["--devices", 8]
    given += [] if batch or name in whole else ["--batch", 16]
    given += [] if curve else ["--curve", "mine"]
    code, told = run(FILES / name, *given)
    assert code == 0, told
    (found,) = import_curves(tmp_path / "mine.csv").curves
    (point,) = found.measured
    assert found.name == (curve or "mine")
    assert point.nodes == (nodes or 8)
    assert point.batch_per_worker == (batch or (whole[name] / 8 if name in whole else 16))
    assert point.step_time == pytest.approx(step_s, rel=0.01)


def test_a_timeline_splits_a_step(tmp_path):
    run(FILES / "timeline.json", "--batch", 8, "-o", tmp_path / "mine.csv")
    (point,) = import_curves(tmp_path / "mine.csv").curves[0].measured
    assert (point.wait, point.communicate) == (pytest.approx(0.01), pytest.approx(0.02))


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("keras.txt", (), "keras.txt: does not say on how many devices it ran: give --devices"),
        ("keras.txt", ("--devices", 2), "keras.txt: does not say the batch: give --batch"),
        ("keras.txt", ("--name", "run_{devices}.txt"), "its name is not like --name run_"),
        ("keras.txt", ("--name", "{gpus}.log"), "--name {gpus}.log: may hold each of {curve}"),
        ("horovod.txt", ("--format", "mlperf_log"), "neither an epoch nor the run came to its end"),
    ],
)
def test_what_a_file_does_not_say_is_asked_for_in_one_line(tmp_path, name, given, said):
    code, told = run(FILES / name, *given, "-o", tmp_path / "mine.csv")
    assert code == 2
    assert said in told
    assert not (tmp_path / "mine.csv").exists()


def test_file_names_say_devices_and_batches(tmp_path):
    paths = [tmp_path / f"cnn_{n}x64.log" for n in (1, 2, 4)]
    for path in paths:
        shutil.copy(FILES / "keras.txt", path)
    code, told = run(*paths, "--name", "{curve}_{devices}x{batch}.log", "-o", tmp_path / "c.csv")
    assert code == 0
    assert "6 rows of 1 curve" in told
    (curve,) = import_curves(tmp_path / "c.csv").curves
    assert (curve.name, curve.nodes, curve.batches) == ("cnn", [1, 2, 4], [64])


def test_names_of_folders_say_devices(tmp_path):
    paths = [tmp_path / "cnn" / f"run_{n}gpu" / "events.out.tfevents.1" for n in (1, 2)]
    for path in paths:
        path.parent.mkdir(parents=True)
        shutil.copy(FILES / "events.out.tfevents.1700000000.node", path)
    given = ("--name", "run_{devices}gpu/*", "--batch", 64, "-o", tmp_path / "c.csv")
    assert run(*paths, *given)[0] == 0
    (curve,) = import_curves(tmp_path / "c.csv").curves
    assert (curve.name, curve.nodes, curve.batches) == ("cnn", [1, 2], [64])
    code, told = run(*paths, "--name", "{curve}/run_{devices}/*", "-o", tmp_path / "c.csv")
    assert code == 2
    assert "its name is not like --name {curve}/run_{devices}/*" in told


def test_the_name_of_a_curve_is_the_users_choice(tmp_path):
    assert run(FILES / "horovod.txt", "--curve", "mine", "-o", tmp_path / "c.csv")[0] == 0
    assert [curve.name for curve in import_curves(tmp_path / "c.csv").curves] == ["mine"]
    code, told = run(TEMPLATE, "--curve", "mine", "-o", tmp_path / "c.csv")
    assert (code, told.partition(": ")[2]) == (2, "has 2 curves; leave out --curve")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--devices", 16), "devices is 4 in the log, but 16 by --devices or --name"),
        (("--batch", 128), "batch is 32 in the log, but 128 by --batch or --name"),
        (("--name", "run_{devices}.log"), "devices is 4 in the log, but 8 by --devices or --name"),
        (("--global-batch", 64), "a batch of 32 on each of 4 devices is not the global batch 64"),
        (
            ("--name", "run_{batch}.log", "--batch", 4),
            "its name says batch 8, but --batch 4.0 was given",
        ),
    ],
)
def test_contradictions_are_refused_in_one_line_that_names_both(tmp_path, given, said):
    path = shutil.copy(FILES / "horovod.txt", tmp_path / "run_8.log")
    code, told = run(path, *given, "-o", tmp_path / "mine.csv")
    assert (code, told.partition(": ")[2]) == (2, said)


def test_what_is_given_and_said_may_agree(tmp_path):
    given = ("--devices", 4, "--batch", 32, "--global-batch", 128, "-o", tmp_path / "mine.csv")
    assert run(FILES / "horovod.txt", *given)[0] == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--devices", 0), "--devices or --name must be a whole number from 1 to 65536, not 0"),
        (("--name", "run_{devices}.txt"), "--devices or --name must be a whole number from 1 to"),
        (("--devices", 99_999_999), "--devices or --name must be a whole number from 1 to 65536"),
        (("--batch", 0), "--batch or --name must be a number from 1 to 1e+09, not 0"),
        (("--batch=-1",), "--batch or --name must be a number from 1 to 1e+09, not -1"),
        (("--batch", "nan"), "--batch or --name must be a number from 1 to 1e+09, not nan"),
        (("--batch", "inf"), "--batch or --name must be a number from 1 to 1e+09, not inf"),
        (("--global-batch", 1e300), "--global-batch or --name must be a number from 1 to 1e+12"),
        (("--devices", 1, "--batch", 8, "--curve", ""), "curve is empty; give it a name"),
        (
            ("--devices", 1, "--batch", 8, "--curve", "a\nb"),
            "curve: must be one short line of text",
        ),
    ],
)
def test_values_that_cannot_be_are_refused(tmp_path, given, said):
    path = shutil.copy(FILES / "keras.txt", tmp_path / "run_0.txt")
    code, told = run(path, *given, "-o", tmp_path / "mine.csv")
    assert code == 2
    assert said in told
    assert not (tmp_path / "mine.csv").exists()


MEGATRON = "iteration 10/ 99 | elapsed time per iteration (ms): {}.5 | global batch size: 512 |\n"
MILLISECONDS = r"per iteration \(ms\): (?P<step_ms>[\d.]+)"


def test_any_other_log_is_read_by_a_pattern(tmp_path):
    path = tmp_path / "run.log"
    path.write_text("".join(MEGATRON.format(ms) for ms in (9100, 6200, 6300)))
    out = ("-o", tmp_path / "c.csv")
    given = ("--pattern", MILLISECONDS, "--devices", 64)
    assert run(path, *given, "--global-batch", 512, *out)[0] == 0
    (point,) = import_curves(tmp_path / "c.csv").curves[0].measured
    assert (point.nodes, point.batch_per_worker, point.step_time) == (64, 8, pytest.approx(6.2505))
    whole = MILLISECONDS + r".*size: (?P<global_batch>\d+)"
    assert run(path, "--pattern", whole, "--devices", 64, *out)[0] == 0
    for wrong in ("(", "no group", "(?P<weeks>.)", "(?P<step_s>x)", "(?P<step_ms>[a-z])"):
        assert run(path, "--pattern", wrong, *given[2:], *out)[0] == 2


def test_a_rate_of_one_device_needs_their_number_from_the_log_or_an_option(tmp_path):
    path = tmp_path / "run.log"
    lines = (FILES / "horovod.txt").read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if line.startswith("Iter")))
    assert run(path, "--devices", 4, "--batch", 32, "-o", tmp_path / "c.csv")[0] == 0
    (point,) = import_curves(tmp_path / "c.csv").curves[0].measured
    assert point.step_time == pytest.approx(32 / 145)


def test_a_pointer_of_git_lfs_is_named(tmp_path):
    path = tmp_path / "events.out.tfevents.1"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    code, told = run(path, "-o", tmp_path / "c.csv")
    assert code == 2
    assert "git lfs pull" in told


def test_a_log_is_never_overwritten(tmp_path):
    logs = [tmp_path / f"run_{n}.log" for n in (1, 2)]
    for path in logs:
        shutil.copy(FILES / "horovod.txt", path)
    code, told = run(*logs, "-o", logs[0])
    assert (code, told) == (2, f"{logs[0]}: --out is one of the files to import; name another file")
    code, told = run(logs[1], "-o", logs[0])
    assert (code, told) == (
        2,
        f"{logs[0]}: --out exists and is not a table of curves; name another file",
    )
    assert logs[0].read_bytes() == logs[1].read_bytes()


def test_a_table_of_curves_is_replaced(tmp_path):
    for name in ("horovod.txt", "tf_cnn.txt"):
        assert run(FILES / name, "-o", tmp_path / "mine.csv")[0] == 0
    (curve,) = import_curves(tmp_path / "mine.csv").curves
    assert curve.name == "resnet50"


def test_tables_of_published_curves_are_for_fit(tmp_path):
    code, told = run(FILES / "scaling_curves.csv", "-o", tmp_path / "mine.csv")
    assert code == 2
    assert told.endswith("is a table that `nodewise fit` reads itself; import takes logs")


TRAINING = """
import sys
import keras
import numpy as np
from step_times import StepTimes
model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)], name="line")
model.compile("sgd", "mse")
x, y = np.ones((40, 4)), np.ones(40)
model.fit(x, y, batch_size=8, verbose=0, callbacks=[StepTimes(sys.argv[1], batch_per_device=8)])
"""


@pytest.mark.slow
def test_the_callback_times_the_steps_of_a_keras_model(tmp_path):
    subprocess.run(
        [sys.executable, "-c", TRAINING, str(tmp_path / "run")],
        env=os.environ | {"PYTHONPATH": "data/templates"},
        check=True,
    )
    (curve,) = import_curves(tmp_path / "run").curves
    (point,) = curve.measured
    assert (curve.name, point.nodes, point.batch_per_worker, point.repeats) == ("line", 1, 8, 4)

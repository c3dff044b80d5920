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
# What each file says: curve, nodes, batch per worker, step time in s; None if it does not say.
SAID = {
    "tf_cnn.txt": ("resnet50", 4, 64, 256 / 1400.2),
    "horovod.txt": ("ResNet50", 4, 32, 32 / 145),
    "keras.txt": (None, None, None, 0.032),
    "events.out.tfevents.1700000000.node": (None, None, None, 0.1),
    "metrics.csv": (None, None, None, 1 / 5.1),
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
    given = ["--devices", 8, "--batch", 16, "--curve", "mine", "-o", tmp_path / "mine.csv"]
    code, told = run(FILES / name, *given)
    assert code == 0, told
    (found,) = import_curves(tmp_path / "mine.csv").curves
    (point,) = found.measured
    assert found.name == (curve or "mine")
    assert point.nodes == (nodes or 8)
    whole = {"trainer_state.json": 128, "mlperf.txt": 1024}  # the batch of all devices together
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


def test_times_of_epochs_do_not_tell_steps(tmp_path):
    path = tmp_path / "keras.txt"
    path.write_text("100/100 [==============================] - 15s 15s/epoch - loss: 0.3\n")
    code, told = run(path, "--devices", 1, "--batch", 8, "-o", tmp_path / "mine.csv")
    assert code == 2
    assert "has times per epoch; times per step are needed" in told


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


def test_fit_names_all_that_a_log_lacks():
    with pytest.raises(UserError, match="does not say curve, nodes, batch_per_worker; `nodewise i"):
        import_curves(FILES / "keras.txt")

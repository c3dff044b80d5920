"""`nodewise import` turns logs of other tools into one table without guessing."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import commands
from nodewise.results.importers import import_curves
from nodewise.results.log_format import FIELDS

FILES = Path("tests/results/files")


@pytest.fixture
def convert(tmp_path):
    """Return a function that converts files and returns the curves of the table."""

    def run_and_read(*arguments):
        commands.run("import", *arguments, "-o", tmp_path / "mine.csv")
        return import_curves(tmp_path / "mine.csv").curves

    return run_and_read


@pytest.fixture
def refusal(tmp_path):
    """Return a function that returns the message about files that cannot be converted."""

    def run_and_fail(*arguments):
        message = commands.refusal("import", *arguments, "-o", tmp_path / "mine.csv")
        assert not (tmp_path / "mine.csv").exists()
        return message

    return run_and_fail


@pytest.mark.parametrize(
    ("name", "given", "named"),
    [
        ("keras.txt", (), "--devices"),
        ("keras.txt", ("--devices", 2), "--batch"),
        ("keras.txt", ("--name", "run_{devices}.txt"), "--name run_{devices}.txt"),
        ("keras.txt", ("--name", "{gpus}.log"), "--name {gpus}.log"),
        ("keras.txt", ("--devices", 0, "--batch", 8), "--devices 0"),
        ("keras.txt", ("--devices", 99_999_999, "--batch", 8), "keras.txt, nodes: "),
        ("keras.txt", ("--devices", 1, "--batch", 0), "--batch 0"),
        ("keras.txt", ("--devices", 1, "--batch", "inf"), "keras.txt, batch_per_worker: "),
        ("keras.txt", ("--devices", 1, "--global-batch", 1e300), "keras.txt, global_batch: "),
        ("keras.txt", ("--devices", 1, "--batch", 8, "--curve", "a\nb"), "keras.txt, curve: "),
        ("horovod.txt", ("--format", "mlperf_log"), "horovod.txt: "),
        ("horovod.txt", ("--devices", 16), "devices is 4 in the log, but --devices 16"),
        ("horovod.txt", ("--batch", 128), "batch is 32 in the log, but --batch 128"),
        ("horovod.txt", ("--global-batch", 64), "32 on each of 4 devices"),
        ("../../../data/templates/measurements.csv", ("--curve", "mine"), "has 2 curves"),
        ("horovod.txt", ("--pattern", "(?P<step_s>1)", "--format", "csv"), "--pattern and --form"),
        ("scaling_curves.csv", (), "nodewise fit"),
        ("keras.txt", ("--name", "*a*b**c*d"), "at most 3 stars"),
    ],
)
def test_what_a_file_lacks_or_contradicts_is_one_line_that_names_it(refusal, name, given, named):
    assert named in refusal(FILES / name, *given)


def test_names_of_files_and_folders_say_devices_and_batches(tmp_path, convert):
    paths = [tmp_path / f"cnn_{n}x64.log" for n in (1, 2, 4)]
    for path in paths:
        shutil.copy(FILES / "keras.txt", path)
    (curve,) = convert(*paths, "--name", "{curve}_{devices}x{batch}.log")
    assert (curve.name, curve.nodes, curve.batches) == ("cnn", [1, 2, 4], [64])
    paths = [tmp_path / "cnn" / f"run_{n}gpu" / "events.out.tfevents.1" for n in (1, 2)]
    for path in paths:
        path.parent.mkdir(parents=True)
        shutil.copy(FILES / "events.out.tfevents.1700000000.node", path)
    (curve,) = convert(*paths, "--name", "run_{devices}gpu/*", "--batch", 64)
    assert (curve.name, curve.nodes, curve.batches) == ("cnn", [1, 2], [64])


PAGE = Path("site/pages/import-logs.md").read_text()
EXAMPLE = r"\n### (.+?)\n.*?```text\n(.+?)```\n\n```sh\n(.+?)```\n\n```csv\n(.+?)```"
EXAMPLES = re.findall(EXAMPLE, PAGE, re.DOTALL)


@pytest.mark.parametrize(("log", "command", "table"), [one[1:] for one in EXAMPLES])
def test_the_documented_patterns_give_the_documented_tables(
    tmp_path, monkeypatch, log, command, table
):
    folder = tmp_path / "mine"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for before in ("", "2026-11-27T13:18:24.5Z [pod/run-worker-0/main] "):
        Path("run.log").write_text("".join(before + line for line in log.splitlines(True)))
        commands.run(*shlex.split(command.replace("\\\n", " "))[1:])
        assert Path("mine.csv").read_text() == table


def test_every_documented_group_of_a_pattern_is_known():
    rows = re.findall(r"^\| (`\w.*?) \|", PAGE, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} <= FIELDS.keys()
    assert len(rows) > 5


def test_words_without_a_number_do_not_tell_ranks_apart(tmp_path, convert):
    steps = "eval iter {0}: time 3ms\ntrain iter {0}: time 9ms\n"
    path = tmp_path / "run.log"
    path.write_text("".join(map(steps.format, range(4))))
    given = ("--devices", 1, "--batch", 8)
    for which, repeats in (("train ", 3), ("", 7)):
        pattern = which + r"iter \d+: time (?P<step_ms>\d+)"
        (point,) = convert(path, "--pattern", pattern, *given)[0].measured
        assert (point.step_time_s, point.repeats) == (pytest.approx(0.009), repeats)


@pytest.mark.parametrize("tag", ["", "0: ", "(W pid=71, ip=192.0.2.7) ", "[rank{0}]:"])
def test_repeated_lines_of_ranks_count_once_with_a_pattern(tmp_path, convert, tag):
    lines = [
        f"iter {at}: loss 3.{{0}}, time {ms}ms\n" for at, ms in enumerate((900, 200, 202, 204))
    ]
    path = tmp_path / "run.log"
    path.write_text("".join((tag + line).format(rank) for line in lines for rank in (1, 0)))
    given = ("--pattern", r"iter \d+: .*time (?P<step_ms>\d+)", "--devices", 2, "--batch", 8)
    (point,) = convert(path, *given)[0].measured
    assert (point.step_time_s, point.repeats) == (pytest.approx(0.202), 3)


def test_a_wrong_pattern_is_refused(tmp_path, refusal):
    path = tmp_path / "run.log"
    path.write_text("iter 1: time 9 ms\n")
    for wrong in ("(", "no group", "(?P<weeks>.)", "(?P<step_s>x)", "(?P<step_ms>[a-z])"):
        refusal(path, "--pattern", wrong, "--devices", 64, "--batch", 8)


def test_options_fill_in_what_some_lines_of_a_log_leave_out(tmp_path, convert, refusal):
    path = tmp_path / "run.log"
    path.write_text("step 30 ms\nstep 20 ms\nstep 22 ms, batch 64\n")
    given = ("--pattern", r"(?P<step_ms>\d+) ms(, batch (?P<batch>\d+))?", "--devices", 1)
    assert "batch is 64 in the log, but --batch 32" in refusal(path, *given, "--batch", 32)
    (point,) = convert(path, *given, "--batch", 64)[0].measured
    assert (point.batch_per_worker, point.repeats) == (64, 2)


def test_a_rate_of_one_device_needs_their_number_from_the_log_or_an_option(tmp_path, convert):
    path = tmp_path / "run.log"
    lines = (FILES / "horovod.txt").read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if line.startswith("Iter")))
    (point,) = convert(path, "--devices", 4, "--batch", 32)[0].measured
    assert point.step_time_s == pytest.approx(32 / 145)
    (curve,) = convert(path, "--devices", 4)  # a rate needs no batch
    (point,) = curve.measured
    assert not curve.batch_known
    assert 4 * point.batch_per_worker / point.step_time_s == pytest.approx(4 * 145)


def test_a_pointer_of_git_lfs_is_named(tmp_path, refusal):
    path = tmp_path / "events.out.tfevents.1"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    assert "git lfs pull" in refusal(path)


def test_a_log_is_never_overwritten_but_a_table_is_replaced(tmp_path, convert):
    logs = [Path(shutil.copy(FILES / "horovod.txt", tmp_path / f"run_{n}.log")) for n in (1, 2)]
    for files in (logs, logs[1:]):
        assert commands.refusal("import", *files, "-o", logs[0]).startswith(f"{logs[0]}: --out ")
    assert logs[0].read_bytes() == logs[1].read_bytes()
    convert(logs[0])
    assert [curve.name for curve in convert(FILES / "tf_cnn.txt")] == ["resnet50"]


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

"""A command that cannot write its output prints one line that names the file; the exit code is 2.

Every command that writes is tested with real errors: a file in the way, or a full disk,
which is a small tmpfs mount that only the command sees.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

import make_datasets
import make_records as make
from nodewise.cli import app
from nodewise.study.config import read_config

NODEWISE = Path(sys.executable).with_name("nodewise")
SMOKE, EMULATED = Path("config/smoke.yaml").absolute(), Path("config/emulated.yaml").absolute()
CELL = "smoke_steps/fashion_cnn/single/batch~32/nodes~1/repeat~0"
WRITING = {
    "prepare": "sample",
    "measure-cell": f"{CELL} --config {SMOKE}",
    **dict.fromkeys(("build-tables", "build-fits", "build-site"), f"--config {SMOKE}"),
    "calibrate": f"--config {EMULATED}",
    "measure-noise-scale": f"fashion_cnn --config {SMOKE}",
    "describe-model": "fashion_mlp",
    "measure": "--strategy single --model models/templates/own_model.py:build --nodes 1 --batch 32"
    " --dataset data/templates/own_data.py:load --steps 2 --out {out}/record.json",
    "fit": "data/templates/measurements.csv -o {out}/fit.json",
    "import": f"{Path('tests/results/files/horovod.txt').absolute()} -o {{out}}/curves.csv",
    "publish": f"--config {SMOKE} --out {{out}}",
    "compare": "results/smoke/tables results/smoke/tables --out {out}/changes.csv",
}
PLACES = {
    "prepare": "results/datasets/sample",
    "measure-cell": "results/smoke/records",
    "calibrate": "results/emulated/calibration",
    "measure-noise-scale": "results/smoke/noise_scale",
    "describe-model": "data/models",
    "build-tables": "results/smoke/tables",
    "build-fits": "results/smoke/fits",
    "build-site": "build",
}
"""Where commands without `--out` write."""
READING = {"doctor", "explain", "forecast", "missing", "models"}
READING |= {"next", "optimum", "plan", "predict", "strategies"}
READ_ONLY = ("fit", "build-tables", "describe-model")
FULL = ("build-site", "build-tables", "publish")


def test_no_command_is_forgotten():
    assert set(get_command(app).commands) == set(WRITING) | READING


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Return a folder like the project's, with a small dataset and with results in `made`."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("config", "models", "site", "data/models", "data/published", "data/templates"):
        shutil.copytree(name, folder / name)
    for name in ("data/weights.yaml", "mkdocs.yml", "CITATION.cff"):
        shutil.copy(name, folder / name)
    make_datasets.write_registry(folder / "data/datasets.yaml", make_datasets.entry())
    records = [make.record(cell) for cell in read_config(SMOKE).cells()]
    make.write(records, folder / "results/smoke/records")
    grid = make.grid(batches=(64,), repeats=1)
    make.write_study(folder / "results/smoke", grid, make.published())
    return folder


@pytest.fixture
def place(project, tmp_path, command):
    """Yield where a command writes; what is there already is put aside."""
    path = Path(PLACES[command]) if command in PLACES else tmp_path / "out"
    real = project / path
    real.parent.mkdir(parents=True, exist_ok=True)
    if real.exists():
        real.rename(tmp_path / "aside")
    yield path
    shutil.rmtree(real) if real.is_dir() else real.unlink(missing_ok=True)
    if (tmp_path / "aside").exists():
        (tmp_path / "aside").rename(real)


def arguments(command: str, out: Path) -> list[str]:
    return WRITING[command].format(out=out).split()


def run(project: Path, command: list[str], before: str = "") -> tuple[int, str]:
    """Run a command in `project` after some shell commands; return its exit code and stderr."""
    alone = ["unshare", "--mount", *(["--map-root-user"] if os.getuid() else [])] if before else []
    done = subprocess.run(
        [*alone, "sh", "-c", f'{before}\nexec "$@"', "sh", NODEWISE, *command],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stderr


def one_line(code: int, said: str) -> str:
    """Check that an error is one line after notes on progress; return it without `nodewise: `."""
    assert code == 2, said
    *notes, line = said.splitlines()
    assert "Traceback" not in said
    assert not any(note.startswith("nodewise:") for note in notes)
    assert line.startswith("nodewise: ")
    return line.removeprefix("nodewise: ")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("command", WRITING)
def test_a_file_in_the_way(project, place, command):
    (project / place).write_text("precious")
    line = one_line(*run(project, [command, *arguments(command, place)]))
    assert line.startswith(str(place))
    assert (project / place).read_text() == "precious"


def may_mount() -> bool:
    trial = run(Path.cwd(), ["--help"], before="mount -t tmpfs none /tmp || exit 1")
    return trial[0] == 0


needs_mounts = pytest.mark.skipif(
    not may_mount() and not ("CI" in os.environ and os.getuid() == 0),
    reason="no disk of memory may be mounted here",
)


def disk(project: Path, place: Path) -> Path:
    """Return the folder on which to mount a disk for what is written to `place`."""
    if place.is_absolute():
        return place.parent
    (project / place).mkdir()
    return place


@pytest.mark.slow
@needs_mounts
@pytest.mark.parametrize(
    ("command", "options", "said"),
    [
        *((name, "ro", ".*: Read-only file system") for name in READ_ONLY),
        *((name, "size=16k", "/.*(No space left on device|cannot be written).*") for name in FULL),
    ],
)
def test_a_disk_that_may_only_be_read_or_is_full(project, place, command, options, said):
    before = f"mount -t tmpfs -o {options} none {disk(project, place)}"
    line = one_line(*run(project, [command, *arguments(command, place)], before))
    assert re.fullmatch(re.escape(str(place)) + said, line)


def test_output_that_nobody_can_take(project):
    """On a full disk neither the result nor the error message can be written."""
    for redirection in ("> /dev/full", "> /dev/full 2>&1"):
        command = f"exec {NODEWISE} models {redirection}"
        done = subprocess.run(
            ["sh", "-c", command], cwd=project, capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert done.stderr in {"", "nodewise: No space left on device\n"}

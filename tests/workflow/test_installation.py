"""Installation into a user's environment, beside other packages and without a clone."""

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import numbers_only
import projects

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

UV = Path(sys.executable).with_name("uv")
MOST_BYTES = 400e6


def run(folder: Path, *command: str | Path, fails: bool = False) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert bool(done.returncode) == fails, done.stderr
    return done.stderr if fails else done.stdout


def installed(folder: Path, extra: str, *options: str) -> Path:
    """Install the project in an environment of its own; return its nodewise command."""
    project = projects.copy(folder / "project")
    environment = folder / "environment"
    python = environment / "bin/python"
    run(project, UV, "venv", "--quiet", "--python", sys.executable, environment)
    install = UV, "pip", "install", "--quiet", "--python", python, *options
    run(project, *install, f"{project}{extra}")
    shutil.rmtree(project)
    return python.with_name("nodewise")


@pytest.fixture(scope="module")
def nodewise(tmp_path_factory):
    """Return the nodewise command, installed with the oldest package versions that it allows."""
    return installed(
        tmp_path_factory.mktemp("oldest"), "[measure]", "--resolution", "lowest-direct"
    )


@pytest.fixture(scope="module")
def light(tmp_path_factory):
    """Return the nodewise command of an installation without extras."""
    return installed(tmp_path_factory.mktemp("light"), "")


def test_a_model_of_one_s_own_is_measured_without_a_clone(nodewise, tmp_path):
    for name in ("models/templates/own_model.py", "data/templates/own_data.py"):
        shutil.copy(name, tmp_path)
    own = "--model", "own_model.py:build", "--dataset", "own_data.py:load"
    how = "--strategy", "custom_loop", "--nodes", "2", "--batch", "32", "--steps", "10"
    said = run(tmp_path, nodewise, "measure", *own, *how, "--out", "record.json")
    assert "examples per second" in said
    record = json.loads((tmp_path / "record.json").read_text())
    extras = tomllib.loads(Path("pyproject.toml").read_text())["project"]["optional-dependencies"]
    for name in ("keras", "tensorflow"):
        (declared,) = [one for one in extras["measure"] if one.startswith(f"{name}>")]
        oldest = declared.removeprefix(f"{name}>=").split(",")[0]
        assert record["provenance"]["versions"][name].startswith(oldest)


def test_a_light_installation_answers_from_numbers(light, tmp_path):
    shutil.copy("data/templates/measurements.csv", tmp_path)
    (tmp_path / "run.log").write_text("time 12ms\n" * 9)
    for command in numbers_only.COMMANDS:
        run(tmp_path, light, *command)
        run(tmp_path, light, command[0], "--help")
    files = [path for path in light.parents[1].rglob("*") if path.is_file()]
    assert sum(path.lstat().st_size for path in files) < MOST_BYTES


@pytest.mark.parametrize(
    ("command", "module", "extra"),
    [
        ("doctor", "psutil", "measure"),
        ("measure --strategy single --model a.py:build --nodes 1 --batch 8", "psutil", "measure"),
        ("build-site --config a.yaml", "jinja2", "study"),
    ],
)
def test_a_missing_extra_is_named_with_its_command(light, tmp_path, command, module, extra):
    said = run(tmp_path, light, *command.split(), fails=True)
    assert said == (
        f"nodewise: {module} is not installed; run in the clone: pip install '.[{extra}]'\n"
    )


@pytest.mark.parametrize(
    "command",
    [
        "models",
        f"plan --config {Path.cwd()}/config/smoke.yaml",
        "measure --model fashion_cnn --strategy single --nodes 1 --batch 8",
        "measure --model json:loads --dataset mnist --strategy single --nodes 1 --batch 8",
    ],
)
def test_what_needs_a_clone_says_so_in_one_line(nodewise, tmp_path, command):
    said = run(tmp_path, nodewise, *command.split(), fails=True)
    assert "models: there is no such folder; run this in a clone of the project" in said
    assert said.count("\n") == 1


def test_packages_of_one_s_own_stay_when_the_environment_is_renewed(tmp_path):
    project = projects.copy(tmp_path / "project")
    (project / "mine.txt").write_text("more-itertools>=10\nnumpy\n")
    use = ".venv/bin/python", "-c", "import more_itertools, nodewise, numpy; print(numpy.__file__)"
    run(project, "make", "setup", "EXTRA=mine.txt")
    assert str(project) in run(project, *use)
    (project / "requirements.lock").touch()
    run(project, "make", "setup")
    assert str(project) in run(project, *use)

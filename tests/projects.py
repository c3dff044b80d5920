"""Copies of the project, run with their own code as a user would run them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

CONFIG = "config/small.yaml"
TIMEOUT_S = 600  # A cell may have to wait until another one on this machine is measured.


def copy(to: Path) -> Path:
    """Copy the project without its history and without generated files."""
    return Path(shutil.copytree(Path.cwd(), to, ignore=_left_out))


def write_study(project: Path, study: dict) -> None:
    (project / CONFIG).write_text(yaml.safe_dump(study, sort_keys=False))


def start(project: Path, *command: str, **variables: str) -> subprocess.Popen[str]:
    """Start a command, such as `nodewise` or `snakemake`, in a copy; stderr goes to stdout."""
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(project / "workflow"),
    }
    return subprocess.Popen(
        command,
        cwd=project,
        env=environment | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def start_snakemake(project: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    command = ("snakemake", "--configfile", CONFIG, "--cores", "all", *arguments)
    return start(project, *command, **variables)


def finish(run: subprocess.Popen[str]) -> str:
    """Wait until a started command ends; return what it printed."""
    try:
        return run.communicate(timeout=TIMEOUT_S)[0]
    finally:
        run.kill()


def snakemake(project: Path, *arguments: str) -> str:
    """Run Snakemake in a copy, check that it succeeds and return what it printed."""
    run = start_snakemake(project, *arguments)
    said = finish(run)
    assert run.returncode == 0, said[-8000:]
    return said


def prepare(project: Path, dataset: str) -> None:
    """Prepare a dataset in a copy of the project."""
    out = f"results/datasets/{dataset}"
    run = start(project, "nodewise", "prepare-dataset", dataset, "--out", out)
    said = finish(run)
    assert run.returncode == 0, said


def _left_out(folder: str, names: list[str]) -> set[str]:
    caches = {name for name in names if name == "__pycache__" or name.endswith("_cache")}
    made = {".git", ".venv", ".snakemake", "build", "results"}
    return caches | (made if folder == str(Path.cwd()) else set())

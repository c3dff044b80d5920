"""Copy the project and run commands in the copy, with the copy's own code, as a user would."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

CONFIG = "config/small.yaml"
TIMEOUT_S = 600  # long, because a cell waits while another one is measured on this machine


def copy(to: Path) -> Path:
    """Copy the project without its history and generated files, and return the copy's path."""
    return Path(shutil.copytree(Path.cwd(), to, ignore=_left_out))


def write_study(project: Path, study: dict) -> None:
    (project / CONFIG).write_text(yaml.safe_dump(study, sort_keys=False))


def small_study(cluster: object = "local", name: str = "small", **experiment: object) -> dict:
    """Return a study of one experiment, `steps`: one cell of 8 steps, but for what is given."""
    steps = {
        "title": "Steps",
        "study": "ntua",
        "models": ["fashion_cnn"],
        "strategies": {"single": {"nodes": [1]}},
        "batches": [64],
        "extent": {"warmup_steps": 1, "steps": 8, "split_steps": 2},
    }
    settings = cluster if isinstance(cluster, dict) else {"kind": cluster}
    experiments = {"steps": steps | experiment}
    return {"name": name, "title": "A study", "cluster": settings, "experiments": experiments}


def start(project: Path, *command: str, **variables: str) -> subprocess.Popen[str]:
    """Start a command such as `nodewise` or `snakemake` in a copy; its whole output is one pipe.

    `variables` are added to the environment.
    """
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


def finish(run: subprocess.Popen[str], code: int | None = 0) -> str:
    """Wait for a command to end, assert its exit code, and return what it printed.

    It is killed after `TIMEOUT_S` seconds. Any exit code is right if `code` is None.
    """
    try:
        said = run.communicate(timeout=TIMEOUT_S)[0]
    finally:
        run.kill()
    assert code is None or run.returncode == code, said[-8000:]
    return said


def snakemake(project: Path, *arguments: str, **variables: str) -> str:
    """Run Snakemake in a copy, assert that it succeeded, and return what it printed."""
    return finish(start_snakemake(project, *arguments, **variables))


def python(*words: object, **variables: str) -> str:
    """Run Python with `words`, assert that it succeeded, and return what it printed."""
    command = [sys.executable, *map(str, words)]
    environment = os.environ | variables
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def _left_out(folder: str, names: list[str]) -> set[str]:
    caches = {name for name in names if name == "__pycache__" or name.endswith("_cache")}
    made = {".git", ".venv", ".snakemake", "build", "results"}
    return caches | (made if folder == str(Path.cwd()) else set())

"""Time the site of 1,000 cells: from records alone (level: 60 s), one of them changed (10 s)."""

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

sys.path.insert(0, "tests")

import make_records as make

CONFIG = "config/thousand.yaml"
FOLDER = "data/records/bench/thousand"
EXPERIMENTS = [f"steps_{letter}" for letter in "abcdefgh"]
NODES, REPEATS = range(1, 6), range(5)
SNAKEMAKE = ["snakemake", "--cores", "all", "--configfile", CONFIG]
STAGES = (
    *("build_tables", "fit_overhead", "judge_overhead", "draw_charts"),
    *("render_cells", "render_pages", "build_site"),
)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder, "project")
        shutil.copytree(Path.cwd(), project, ignore=_left_out)
        study = {"name": "thousand", "title": "A thousand cells", "records": [FOLDER]}
        (project / CONFIG).write_text(yaml.safe_dump(study))
        records = [make.record(make.cell(**cell)) for cell in cells()]
        make.write(records, project / FOLDER)
        build(project, f"{len(records):,} records")
        make.write([make.failed(records[0].cell, "lost")], project / FOLDER)
        build(project, "one changed")
        build(project, "none changed")


def cells() -> list[dict]:
    axes = itertools.product(EXPERIMENTS, make.BATCHES, NODES, REPEATS)
    return [
        {"experiment": experiment, "batch": batch, "n": nodes, "repeat": repeat}
        for experiment, batch, nodes, repeat in axes
    ]


def build(project: Path, what: str) -> None:
    environment = os.environ | {"PYTHONPATH": str(project / "workflow")}
    began, used = time.time(), cpu_s()
    done = subprocess.run(
        SNAKEMAKE, cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    seconds = time.time() - began
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    stages = {
        job["rule"]: job["endtime"] - job["starttime"]
        for path in project.glob(".snakemake/metadata/**/*")
        if path.is_file() and (job := json.loads(path.read_text()))["starttime"] >= began
    }
    print(f"{what}: {seconds:.1f} s, of which {cpu_s() - used:.1f} s on a processor")
    for stage in filter(stages.get, STAGES):
        print(f"    {stage:14} {stages[stage]:5.1f} s")
    print(f"    {'Snakemake':14} {seconds - sum(stages.values()):5.1f} s")


def cpu_s() -> float:
    """Return the CPU time of all commands so far: on a busy machine it tells more."""
    times = os.times()
    return times.children_user + times.children_system


def _left_out(folder: str, names: list[str]) -> set[str]:
    made = {".git", ".venv", ".snakemake", "build", "results"}
    return {"__pycache__"} | (made if Path(folder) == Path.cwd() else set())


if __name__ == "__main__":
    main()

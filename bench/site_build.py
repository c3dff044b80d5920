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
from statistics import median

import yaml

sys.path.insert(0, "tests")

import make_records as make

CONFIG = "config/thousand.yaml"
FOLDER = "data/records/bench/thousand"
EXPERIMENTS = [f"steps_{letter}" for letter in "abcdefgh"]
NODES, REPEATS = range(1, 6), range(5)
TIMES = 5
SNAKEMAKE = ["snakemake", "--cores", "all", "--configfile", CONFIG]
STAGES = (
    *("build_tables", "fit_overhead", "judge_overhead", "draw_charts", "draw_pictures"),
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
        took = []
        for record in records[:TIMES]:
            make.write([make.failed(record.cell, "lost")], project / FOLDER)
            took.append(build(project, "one changed"))
        build(project, "none changed")
        print(f"one changed, median of {TIMES}: {median(took):.1f} s")


def cells() -> list[dict]:
    axes = itertools.product(EXPERIMENTS, make.BATCHES, NODES, REPEATS)
    return [
        {"experiment": experiment, "batch": batch, "n": nodes, "repeat": repeat}
        for experiment, batch, nodes, repeat in axes
    ]


def build(project: Path, what: str) -> float:
    """Run the workflow and print how long it and its steps took; return its seconds."""
    environment = os.environ | {"PYTHONPATH": str(project / "workflow")}
    began = time.time()
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
    print(f"{what}: {seconds:.1f} s")
    for stage in filter(stages.get, STAGES):
        print(f"    {stage:14} {stages[stage]:5.1f} s")
    return seconds


def _left_out(folder: str, names: list[str]) -> set[str]:
    made = {".git", ".venv", ".snakemake", "build", "results"}
    return {"__pycache__"} | (made if Path(folder) == Path.cwd() else set())


if __name__ == "__main__":
    main()

"""Time a cell from the start of its command to its first timed step, on local and emulated nodes.

The record contains this time, and also when TensorFlow was imported and when the last worker was
ready.
"""

import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from nodewise.core.cell import Cell
from nodewise.results.record import read_record
from nodewise.study.config import PREPARED, read_config

DATASET = PREPARED / "fashion_mnist"
RUNS = 5
MILESTONES = ("imported_s", "workers_ready_s", "first_timed_step_s")
EXTENT = {"warmup_steps": 2, "steps": 2, "split_steps": 0}
Start = Callable[[], dict[str, float] | None]
"""Starts a job; returns its milestones, None if it is not permitted here."""


def experiment(cluster: dict[str, Any], nodes: list[int]) -> dict[str, Any]:
    return {
        "title": "Start",
        "study": "nodewise",
        "models": ["fashion_cnn"],
        "strategies": {"multi_worker_mirrored": {"nodes": nodes}},
        "batches": [32],
        "extent": EXTENT,
        "cluster": cluster,
    }


STUDY = {
    "name": "start",
    "title": "Start",
    "experiments": {
        "local": experiment({"kind": "local"}, [2, 3]),
        "emulated": experiment({"kind": "emulated"}, [3, 8]),
    },
}


def main() -> None:
    """Time every cell of the study and print its times."""
    prepare()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "study.yaml")
        config.write_text(yaml.safe_dump(STUDY))
        cells = {f"{c.experiment}, {c.nodes} workers": c for c in read_config(config).cells()}
        ways = {title: partial(started, cell, config) for title, cell in cells.items()}
        permitted = {title: start for title, start in ways.items() if start() is not None}
        for title in ways.keys() - permitted.keys():
            print(f"{title}: not permitted here")
        for title, taken in by_turns(permitted).items():
            tell(title, taken)


def prepare() -> None:
    """Prepare the dataset."""
    subprocess.run([sys.executable, "-m", "nodewise", "prepare", DATASET.name], check=True)


def by_turns(ways: Mapping[str, Start]) -> dict[str, list[dict[str, float]]]:
    """Run all ways in turns, in random order; return the milestones of each run."""
    taken: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    for _ in range(RUNS):
        for way in random.sample(list(ways), len(ways)):
            if (start := ways[way]()) is not None:
                taken[way].append(start)
    return taken


def tell(title: str, starts: list[dict[str, float]]) -> None:
    """Print the median and range of each milestone."""
    print(f"{title}:")
    for milestone in MILESTONES:
        seconds = [start[milestone] for start in starts]
        median, low, high = statistics.median(seconds), min(seconds), max(seconds)
        print(f"  {milestone:20} median {median:5.2f} s  ({low:.2f} to {high:.2f})")


def started(cell: Cell, config: Path) -> dict[str, float] | None:
    """Run the command of the workflow's rule; return the record's milestones, None if refused."""
    command = [sys.executable, "-m", "nodewise", "measure-cell", cell.id, "--config", str(config)]
    subprocess.run(command, check=True, capture_output=True)
    record = read_record(read_config(config).results / f"records/{cell.id}.json")
    if record.failure and record.status == "failed":
        raise SystemExit(record.failure.reason)
    return record.result.start_up.model_dump() if record.result else None


if __name__ == "__main__":
    main()

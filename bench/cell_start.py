"""From the start of a cell's rule to its first timed step; forked workers against fresh ones.

Levels: 3 workers in at most 8 s and a third of what fresh processes take; 8 emulated ones in 15 s.

Forked is the command that the rule runs, in a run of the workflow: its process and its workers are
forked from one that has imported TensorFlow. By hand is the same command without such a process: it
imports TensorFlow, then forks its workers. Fresh is the same worker code in as many Python
processes, started at once, each importing TensorFlow for itself. All run the same cell on the same
kind of nodes, by turns.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import yaml

from nodewise import fork_server
from nodewise.cells import Cell
from nodewise.clusters import cluster_of, machine, processes
from nodewise.config import read_config
from nodewise.records import Measurement, read_record

RUNS = 5
DATASET = Path("results/datasets/fashion_mnist")
MILESTONES = ("imported_s", "workers_ready_s", "first_timed_step_s")
FRESH_NODES = 3
TIME_LIMIT_S = 120
PLACE = "NODEWISE_BENCH_PLACE"  # what a fresh worker is told: its cell, rank and so on
EXTENT = {"warmup_steps": 2, "steps": 2, "split_steps": 0}


def experiment(cluster: dict, nodes: list[int]) -> dict:
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
    """Time every cell of the study and print what it took."""
    prepare()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "study.yaml")
        config.write_text(yaml.safe_dump(STUDY))
        for cell in sorted(read_config(config).cells(), key=lambda c: (c.experiment, c.nodes)):
            title = f"{cell.experiment}, {cell.nodes} workers"
            if forked(cell, config, Path(folder)) is None:  # not timed: files come from the disk
                print(f"{title}: not permitted here")
                continue
            ways = {"forked": partial(forked, cell, config, Path(folder))}
            if cell.nodes == FRESH_NODES:
                ways["by hand"] = partial(by_hand, cell, config, Path(folder))
                ways["fresh"] = partial(fresh, cell, config, Path(folder))
            taken = by_turns(ways)
            tell(title, taken)
            if cell.nodes == FRESH_NODES:
                tell_ratio(taken, "forked", "fresh")
                tell_ratio(taken, "by hand", "fresh")


def prepare() -> None:
    """Prepare the dataset, and start what cells of a run of the workflow are forked from."""
    command = [sys.executable, "-m", "nodewise", "prepare-dataset", "fashion_mnist"]
    subprocess.run([*command, "--out", DATASET], check=True)
    fork_server.start("measure")


def by_turns(ways: dict[str, Callable[[], dict[str, float]]]) -> dict[str, list[dict[str, float]]]:
    """Start in every way, by turns; return the milestones of each."""
    taken: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    for _ in range(RUNS):
        for way in random.sample(list(ways), len(ways)):
            taken[way].append(ways[way]())
    return taken


def tell(title: str, taken: dict[str, list[dict[str, float]]]) -> None:
    """Print medians with their range."""
    for way, starts in taken.items():
        print(f"{title}, {way}:")
        for milestone in MILESTONES:
            seconds = [start[milestone] for start in starts if milestone in start]
            if seconds:
                median, low, high = statistics.median(seconds), min(seconds), max(seconds)
                print(f"  {milestone:20} median {median:5.2f} s  ({low:.2f} to {high:.2f})")


def tell_ratio(taken: dict[str, list[dict[str, float]]], one: str, other: str) -> None:
    """Print the ratio of two ways, turn by turn."""
    pairs = zip(taken[one], taken[other], strict=True)
    ratios = [a["first_timed_step_s"] / b["first_timed_step_s"] for a, b in pairs]
    median, low, high = statistics.median(ratios), min(ratios), max(ratios)
    print(f"  {f'{one} / {other}':20} median {median:5.2f}    ({low:.2f} to {high:.2f})")


def forked(cell: Cell, config: Path, folder: Path) -> dict[str, float] | None:
    """Run the rule's command; return the milestones of its record, None if it was refused."""
    result = measured(cell, config, folder, os.environ)
    return result.start_up.model_dump() if result else None


def by_hand(cell: Cell, config: Path, folder: Path) -> dict[str, float]:
    """Run the rule's command where there is nothing to be forked from; return its milestones."""
    result = measured(cell, config, folder, without_server())
    return result.start_up.model_dump()


def without_server() -> dict[str, str]:
    """Return an environment in which a command finds no process to be forked from."""
    return {name: value for name, value in os.environ.items() if name != fork_server.ADDRESS}


def measured(
    cell: Cell, config: Path, folder: Path, environment: Mapping[str, str]
) -> Measurement | None:
    """Run the rule's command; return what it measured, None if it was refused."""
    out = folder / "record.json"
    command = [sys.executable, "-m", "nodewise", "measure-cell", cell.id, "--config", config]
    command += ["--manifest", DATASET / "manifest.json", "--out", out, "--logs", folder / "logs"]
    subprocess.run(command, check=True, capture_output=True, env=environment)
    record = read_record(out)
    if record.status == "failed":
        raise SystemExit(record.failure.reason)
    return record.result


def fresh(cell: Cell, config: Path, folder: Path) -> dict[str, float]:
    """Run this script as a launcher without TensorFlow; return the milestones that it printed."""
    command = [sys.executable, __file__, cell.id, config, folder / "logs"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


class StartedError(Exception):
    """A worker has done its first timed step, with the others."""


def launch(name: str, config: str, logs: str) -> None:
    """Start fresh workers and print their milestones once they have done a timed step."""
    from nodewise.runner import settle_environment, started_at

    settle_environment()  # before NumPy is imported: its threads would bar the way to namespaces
    from nodewise.measure import guards

    (cell,) = (cell for cell in read_config(Path(config)).cells() if cell.id == name)
    cluster = cluster_of(cell)
    ready = []

    def work(rank: int, channel: processes.Channel) -> processes.Message:
        line = channel._stream.fileno(), channel._reading
        for descriptor in line:
            os.set_inheritable(descriptor, True)
        known = {k: v for k, v in vars(cluster).items() if isinstance(v, bool | list)}
        os.environ[PLACE] = json.dumps([cell.model_dump(mode="json"), known, rank, *line])
        os.execv(sys.executable, [sys.executable, __file__])  # noqa: S606

    def hear(rank: int, message: processes.Message) -> None:
        if message.get("event") == "ready":
            ready.append(message["at"] - began)
        elif message.get("event") == "first_step":
            raise StartedError(message["at"] - began)

    def meet(name: str, pids: list[int]) -> bool:
        if name == "placed":
            cluster.connect(pids)
        elif name == "warm":
            guards.Blocks(cluster, limit=1).begin()
        return False

    with machine.to_itself(lambda: None) as waited_s, cluster.open():
        began = started_at() + waited_s
        try:
            processes.run(
                cell.nodes,
                work,
                logs=Path(logs),
                time_limit_s=TIME_LIMIT_S,
                on_message=hear,
                on_meeting=meet,
            )
        except StartedError as done:
            print(json.dumps({"workers_ready_s": max(ready), "first_timed_step_s": done.args[0]}))


def train(told: dict, known: dict, rank: int, writing: int, reading: int) -> None:
    """Be a fresh worker of the cell `told`; `known` is what opening its cluster found out."""
    from nodewise import train  # and TensorFlow

    cell = Cell.model_validate(told)
    cluster = cluster_of(cell)
    vars(cluster).update(known)
    channel = processes.Channel(writing, reading)
    train.train_cell(cell, cluster, rank, channel, manifest=DATASET / "manifest.json", weights=None)


if __name__ == "__main__":
    if PLACE in os.environ:
        train(*json.loads(os.environ[PLACE]))
    elif len(sys.argv) > 1:
        launch(*sys.argv[1:])
    else:
        main()

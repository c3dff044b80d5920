"""Cells of strategies whose ranks connect through a library of their own, MPI or Horovod.

Each emulated node has its own network, in which only one interface leads to other nodes.
"""

import subprocess
import time
from pathlib import Path

import projects
from nodewise.results.record import Record, read_record
from traces import assert_gone, traces, workers_in_timed_steps

NODES = 3
EMULATED = {"kind": "emulated", "node": {"cpu": 0.2}, "link": {"rate_mbit": 200}}
_DATASET = "results/datasets/fashion_mnist/manifest.json"
_EXTENT = {"warmup_steps": 1, "steps": 3, "split_steps": 2}


def project_of(strategy: str, folder: Path) -> Path:
    """Return a copy of the project in `folder`, with its dataset and a study of `strategy`.

    The experiments of the study are `local`, `emulated` and, also on emulated nodes, `endless`.
    """
    project = projects.copy(folder / "project")
    experiments = {
        "local": ({"kind": "local"}, {}),
        "emulated": (EMULATED, {}),
        "endless": (EMULATED, {"steps": 1_000_000}),
    }
    study = {
        "name": strategy,
        "title": "Ranks",
        "cluster": {"kind": "local"},
        "cell_time_limit_s": 60,
        "experiments": {
            name: {
                "title": "Ranks",
                "study": "nodewise",
                "models": ["fashion_mlp"],
                "strategies": {strategy: {"nodes": [NODES]}},
                "batches": [32],
                "extent": _EXTENT | extent,
                "cluster": cluster,
            }
            for name, (cluster, extent) in experiments.items()
        },
    }
    projects.write_study(project, study)
    projects.prepare(project, "fashion_mnist")
    return project


def start(project: Path, strategy: str, experiment: str) -> subprocess.Popen[str]:
    cell = f"{experiment}/fashion_mlp/{strategy}/batch~32/nodes~{NODES}/repeat~0"
    command = ("nodewise", "measure-cell", cell, "--config", projects.CONFIG)
    made = ("--manifest", _DATASET, "--out", f"{experiment}.json", "--logs", f"logs/{experiment}")
    return projects.start(project, *command, *made)


def finish(project: Path, experiment: str, run: subprocess.Popen[str]) -> Record:
    said = projects.finish(run)
    assert run.returncode == 0, said
    return read_record(project / f"{experiment}.json")


def assert_sent_as_in_a_ring(record: Record) -> None:
    """Check that each rank sent as many bytes over the network as the ring law says."""
    assert record.status == "ok", record.failure
    ring = 2 * (NODES - 1) / NODES * record.result.payload_bytes * record.result.steps
    for worker in record.result.workers:
        assert ring <= worker.bytes_sent <= 1.02 * ring
    assert len({worker.rank for worker in record.result.workers}) == NODES


def assert_a_killed_worker_is_named(project: Path, strategy: str) -> None:
    """Kill one rank in its timed steps; check that the cell ends within 15 s and leaves nothing."""
    before = traces(str(project))
    run = start(project, strategy, "endless")
    killed = workers_in_timed_steps(str(project), NODES, projects.TIMEOUT_S)[2]
    killed.kill()
    began = time.monotonic()
    record = finish(project, "endless", run)
    assert time.monotonic() - began < 15
    assert record.status == "failed"
    assert record.failure.rank == 2
    assert record.failure.reason == "rank 2: killed by SIGKILL"
    assert_gone(before, str(project))

"""Cells whose ranks are connected by MPI or Horovod, started by the real command.

Each emulated node is in a network namespace of its own, with a single interface to the others.
"""

import subprocess
import time

import pytest

import projects
from make_horovod import make_horovod
from nodewise.results.record import Record, read_record
from nodewise.strategies.horovod import build as horovod_build
from traces import assert_gone, needs_emulated_nodes, slower, traces, workers_in_timed_steps

pytestmark = [pytest.mark.slow, pytest.mark.alone]

NODES = 3
EMULATED = {"kind": "emulated", "node": {"cpu": 0.2}, "link": {"rate_mbit": 200}}
STEPS = {"emulated": 3, "endless": 1_000_000}
VERSIONS = {"mpi": "mpi4py", "horovod": "horovod"}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Return a copy of the project with its dataset prepared, without Horovod."""
    project = projects.copy(tmp_path_factory.mktemp("ranks") / "project")
    experiments = {
        name: {
            "title": "Ranks",
            "study": "nodewise",
            "models": ["fashion_mlp"],
            "strategies": {strategy: {"nodes": [NODES]} for strategy in VERSIONS},
            "batches": [32],
            "extent": {"warmup_steps": 1, "steps": steps, "split_steps": 2},
            "cluster": EMULATED,
        }
        for name, steps in STEPS.items()
    }
    study = {
        "name": "ranks",
        "title": "Ranks",
        "cluster": {"kind": "local"},
        "cell_time_limit_s": 120,
    }
    projects.write_study(project, study | {"experiments": experiments})
    projects.prepare(project, "fashion_mnist")
    return project


def with_library(project, strategy: str) -> None:
    """Make Horovod available in the copy of the project if the strategy needs it."""
    link = project / horovod_build.FOLDER
    if strategy == "horovod" and not link.exists():
        make_horovod()
        link.symlink_to(horovod_build.FOLDER.absolute())


def start(project, strategy: str, experiment: str) -> subprocess.Popen[str]:
    cell = f"{experiment}/fashion_mlp/{strategy}/batch~32/nodes~{NODES}/repeat~0"
    command = ("nodewise", "measure-cell", cell, "--config", projects.CONFIG)
    manifest = ("--manifest", "results/datasets/fashion_mnist/manifest.json")
    out = ("--out", f"{experiment}.json", "--logs", f"logs/{experiment}")
    return projects.start(project, *command, *manifest, *out)


def finish(project, experiment: str, run: subprocess.Popen[str]) -> Record:
    said = projects.finish(run)
    assert run.returncode == 0, said
    return read_record(project / f"{experiment}.json")


def test_without_horovod_a_cell_is_refused_and_says_what_would_permit_it(project):
    (project / horovod_build.FOLDER).unlink(missing_ok=True)
    record = finish(project, "emulated", start(project, "horovod", "emulated"))
    assert record.status == "refused"
    assert record.failure.reason == (
        "Horovod is not built. To allow it, run: nodewise build-horovod --out results/horovod"
    )
    assert not (project / "logs").exists()  # No worker was started.
    assert "horovod" not in record.provenance.versions


@needs_emulated_nodes
@pytest.mark.parametrize("strategy", VERSIONS)
def test_it_trains_and_sends_what_a_ring_sends_over_the_network(project, strategy):
    """With shared memory, which MPI prefers on one machine, the network would carry nothing."""
    with_library(project, strategy)
    before = traces(str(project))
    record = finish(project, "emulated", start(project, strategy, "emulated"))
    assert_gone(before, str(project))
    assert record.status == "ok", record.failure
    ring = 2 * (NODES - 1) / NODES * record.result.payload_bytes * record.result.steps
    for worker in record.result.workers:
        assert ring <= worker.bytes_sent <= 1.02 * ring
    assert len({worker.rank for worker in record.result.workers}) == NODES
    assert VERSIONS[strategy] in record.provenance.versions


@needs_emulated_nodes
@pytest.mark.parametrize("strategy", VERSIONS)
def test_a_killed_worker_ends_its_cell_within_15_s_and_is_named(project, strategy):
    with_library(project, strategy)
    before = traces(str(project))
    run = start(project, strategy, "endless")
    workers_in_timed_steps(str(project), NODES, projects.TIMEOUT_S)[2].kill()
    began = time.monotonic()
    record = finish(project, "endless", run)
    assert time.monotonic() - began < 15 * slower()
    assert record.status == "failed"
    assert record.failure.rank == 2
    assert record.failure.reason == "rank 2: killed by SIGKILL"
    assert_gone(before, str(project))

"""Cells that train with MPI, by the real command, and ranks of it by themselves (mpi_job.py).

Each emulated node is in a network of its own, where nothing but its one interface leads to others.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mpi_job import LATE_S, STEPS

import projects
from nodewise.records import Record, read_record
from traces import assert_gone, needs_emulated_nodes, traces, workers_in_timed_steps

SCRIPT = Path(__file__).with_name("mpi_job.py")
NODES = 3
CELL = f"{{}}/fashion_mlp/mpi/batch~32/nodes~{NODES}/repeat~0"
DATASET = "results/datasets/fashion_mnist/manifest.json"
EXTENT = {"warmup_steps": 1, "steps": 3, "split_steps": 2}
ENDLESS = EXTENT | {"steps": 1_000_000}
EMULATED = {"kind": "emulated", "node": {"cpu": 0.2}, "link": {"rate_mbit": 200}}


def experiment(extent: dict, cluster: dict) -> dict:
    return {
        "title": "MPI",
        "study": "nodewise",
        "models": ["fashion_mlp"],
        "strategies": {"mpi": {"nodes": [NODES]}},
        "batches": [32],
        "extent": extent,
        "cluster": cluster,
    }


STUDY = {
    "name": "mpi",
    "title": "MPI",
    "cluster": {"kind": "local"},
    "cell_time_limit_s": 60,
    "experiments": {
        "local": experiment(EXTENT, {"kind": "local"}),
        "emulated": experiment(EXTENT, EMULATED),
        "endless": experiment(ENDLESS, EMULATED),
    },
}


@pytest.fixture(scope="module")
def ranks():
    """What each of three ranks saw."""
    one_thread = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # else no node can be entered
    done = subprocess.run(
        [sys.executable, SCRIPT],
        check=False,
        capture_output=True,
        text=True,
        timeout=90,
        env=one_thread,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_waiting_a_second_for_a_peer_takes_hardly_any_cpu_time(ranks):
    """A rank that waited as MPI does by itself would take the whole second."""
    assert all(rank["waiting_cpu_s"] <= 0.05 for rank in ranks)


def test_a_collective_that_a_peer_does_not_come_to_is_an_error(ranks):
    assert [rank["stuck"] for rank in ranks[:2]] == [
        "a collective of MPI is not done after 0.5 s"
    ] * 2


def test_ranks_can_be_reached_at_their_own_address_only(ranks):
    assert {address for rank in ranks for address in rank["listening"]} == {"127.0.0.1"}


def test_the_mean_of_the_ranks_step_times_is_told_once(ranks):
    assert ["mean_step_s" in rank for rank in ranks] == [True, False, False]
    for step in range(STEPS):
        own = [rank["step_s"][step] for rank in ranks]
        assert own[0] - own[2] > 1.5 * LATE_S  # it waits for rank 2, which is twice as late
        assert ranks[0]["mean_step_s"][step] == pytest.approx(sum(own) / len(own), abs=0.01)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of the project with its dataset in place."""
    project = projects.copy(tmp_path_factory.mktemp("mpi") / "project")
    projects.write_study(project, STUDY)
    projects.snakemake(project, DATASET)
    return project


def start(project: Path, experiment: str) -> subprocess.Popen[str]:
    cell = CELL.format(experiment)
    command = ("nodewise", "measure-cell", cell, "--config", projects.CONFIG)
    made = ("--manifest", DATASET, "--out", f"{experiment}.json", "--logs", f"logs/{experiment}")
    return projects.start(project, *command, *made)


def finish(project: Path, experiment: str, run: subprocess.Popen[str]) -> Record:
    said = projects.finish(run)
    assert run.returncode == 0, said
    return read_record(project / f"{experiment}.json")


@pytest.mark.parametrize("nodes", ["local", pytest.param("emulated", marks=needs_emulated_nodes)])
def test_it_trains_and_sends_what_a_ring_sends_over_the_network(project, nodes):
    """Over memory that ranks share, as MPI prefers it on one machine, nothing would be sent."""
    record = finish(project, nodes, start(project, nodes))
    assert record.status == "ok", record.failure
    assert {"mpi4py", "mpich"} <= record.provenance.versions.keys()
    ring = 2 * (NODES - 1) / NODES * record.result.payload_bytes * record.result.steps
    for worker in record.result.workers:
        assert ring <= worker.bytes_sent <= 1.02 * ring
    assert len(record.result.workers[0].observed["mean_step_s"]) == record.result.steps


@needs_emulated_nodes
def test_a_killed_worker_ends_its_cell_within_15_s_and_is_named(project):
    before = traces(str(project))
    run = start(project, "endless")
    killed = workers_in_timed_steps(str(project), NODES, projects.TIMEOUT_S)[2]
    killed.kill()
    began = time.monotonic()
    record = finish(project, "endless", run)
    assert time.monotonic() - began < 15
    assert record.status == "failed"
    assert record.failure.rank == 2
    assert record.failure.reason == "rank 2: killed by SIGKILL"
    assert_gone(before, str(project))

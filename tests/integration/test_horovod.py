"""Cells that train with Horovod, by the real command, on nodes that it could get wrong.

Each emulated node is in a network of its own, where nothing but its one interface leads to others.
"""

import time
from pathlib import Path

import pytest

import projects
from make_horovod import make_horovod
from nodewise import horovod_build
from nodewise.records import Record, read_record
from traces import assert_gone, needs_emulated_nodes, traces, workers_in_timed_steps

NODES = 3
CELL = f"{{}}/fashion_mlp/horovod/batch~32/nodes~{NODES}/repeat~0"
DATASET = "results/datasets/fashion_mnist/manifest.json"
EXTENT = {"warmup_steps": 1, "steps": 3, "split_steps": 2}
ENDLESS = EXTENT | {"steps": 1_000_000}


def experiment(extent: dict, cluster: dict) -> dict:
    return {
        "title": "Horovod",
        "study": "nodewise",
        "models": ["fashion_mlp"],
        "strategies": {"horovod": {"nodes": [NODES]}},
        "batches": [32],
        "extent": extent,
        "cluster": cluster,
    }


EMULATED = {"kind": "emulated", "node": {"cpu": 0.2}, "link": {"rate_mbit": 200}}
STUDY = {
    "name": "horovod",
    "title": "Horovod",
    "cluster": {"kind": "local"},
    "cell_time_limit_s": 60,
    "experiments": {
        "local": experiment(EXTENT, {"kind": "local"}),
        "emulated": experiment(EXTENT, EMULATED),
        "endless": experiment(ENDLESS, EMULATED),
    },
}


@pytest.fixture(scope="module")
def without(tmp_path_factory):
    """A copy of the project with its dataset in place, without Horovod."""
    project = projects.copy(tmp_path_factory.mktemp("horovod") / "project")
    projects.write_study(project, STUDY)
    projects.snakemake(project, DATASET)
    return project


@pytest.fixture
def project(without):
    """The same with Horovod."""
    make_horovod()
    link = without / horovod_build.FOLDER
    link.symlink_to(horovod_build.FOLDER.absolute())
    yield without
    link.unlink()


def start(project: Path, experiment: str):
    cell = CELL.format(experiment)
    command = ("nodewise", "measure-cell", cell, "--config", projects.CONFIG)
    made = ("--manifest", DATASET, "--out", f"{experiment}.json", "--logs", f"logs/{experiment}")
    return projects.start(project, *command, *made)


def finish(project: Path, experiment: str, run) -> Record:
    said = projects.finish(run)
    assert run.returncode == 0, said
    return read_record(project / f"{experiment}.json")


def test_without_horovod_a_cell_is_refused_and_says_what_would_permit_it(without):
    record = finish(without, "local", start(without, "local"))
    assert record.status == "refused"
    assert record.failure.reason == (
        "Horovod is not built; what would permit it: nodewise build-horovod --out results/horovod"
    )
    assert not (without / "logs").exists()  # no worker was started
    assert "horovod" not in record.provenance.versions


@pytest.mark.parametrize("nodes", ["local", pytest.param("emulated", marks=needs_emulated_nodes)])
def test_it_trains_sends_what_a_ring_sends_and_tells_what_it_is(project, nodes):
    record = finish(project, nodes, start(project, nodes))
    assert record.status == "ok", record.failure
    assert record.provenance.versions["horovod"] == "0.28.1+nodewise"
    ring = 2 * (NODES - 1) / NODES * record.result.payload_bytes * record.result.steps
    for worker in record.result.workers:
        assert ring <= worker.bytes_sent <= 1.02 * ring
    assert len({worker.rank for worker in record.result.workers}) == NODES


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

"""Cells inside an allocation of real Slurm daemons are measured or end without leaving traces."""

import os
import sys
from importlib.util import find_spec

import pytest
import slurm_nodes
import ssh_hosts
import yaml

import projects
from nodewise.results.calibration import read_calibration
from nodewise.results.record import read_record
from traces import wait_until

pytestmark = ssh_hosts.MARKS
OWN = "--model models/templates/own_model.py:build --dataset data/templates/own_data.py:load"
CLUSTER = f"{{kind: slurm, python: {sys.executable}, ports: [31000, 31999]}}"
LONG = "--strategy multi_worker_mirrored --nodes 2 --steps 900000"
EXECUTOR = "snakemake_executor_plugin_slurm"


@pytest.fixture(scope="module")
def inside(tmp_path_factory):
    """Return a function that wraps commands to run in the first of three nodes."""
    with slurm_nodes.cluster(tmp_path_factory.mktemp("slurm"), 3) as inside:
        yield inside


def measure(how: str, out: str, cluster: str = CLUSTER) -> list[str]:
    words = f"{OWN} --batch 32 {how} --out {out}".split()
    return ["nodewise", "measure", *words, "--cluster", cluster]


def start(inside, project, *command: str):
    """Start a command in an allocation of two nodes."""
    return projects.start(project, *inside("salloc", "-Q", "-N2", *command, at=project))


def check(record, name: str) -> None:
    assert (record.status, record.cell.cluster.kind, record.kind) == ("ok", "slurm", "measured")
    assert record.cell.cluster.label == name
    payload = record.result.payload_bytes
    assert all(w.bytes_sent / record.result.steps > 0.9 * payload for w in record.result.workers)


@pytest.mark.parametrize("strategy", ["mpi", "keras_jax"])
def test_an_allocation_is_measured_with_two_workers_on_one_node(project, inside, strategy):
    settings = CLUSTER.replace("}", ", devices_per_node: 2}")
    how = f"--strategy {strategy} --nodes 3 --steps 4"
    projects.finish(start(inside, project, *measure(how, f"{strategy}.json", settings)))
    check(read_record(project / f"{strategy}.json"), "Slurm cluster, 2 workers on each")
    wait_until(lambda: not ssh_hosts.agents(project))


def write_study(project, name: str) -> str:
    """Write a study of one cell; return the path of its record."""
    study = projects.small_study(
        yaml.safe_load(CLUSTER) | {"name": "our Slurm"},
        name,
        own_models={"mine": dict(zip(("build", "dataset"), OWN.split()[1::2], strict=True))},
        models=[],
        strategies={"multi_worker_mirrored": {"nodes": [2]}},
        batches=[32],
        extent={"steps": 4},
    )
    (project / f"config/{name}.yaml").write_text(yaml.safe_dump(study))
    cell = "steps/mine/multi_worker_mirrored/batch~32/nodes~2/repeat~0"
    return f"results/{name}/records/{cell}.json"


def test_a_batch_job_measures_a_study(project, inside):
    record = write_study(project, "batch")
    (project / ".venv").symlink_to(sys.prefix)
    script = ("profiles/slurm/study.sh", "config/batch.yaml", record)
    run = projects.start(project, *inside("sbatch", "-W", "-N2", "-o", "said", *script, at=project))
    projects.finish(run, None)
    assert run.returncode == 0, (project / "said").read_text()
    check(read_record(project / record), "our Slurm")


def test_doctor_examines_the_nodes_of_an_allocation(project, inside):
    write_study(project, "examined")
    doctor = ("nodewise", "doctor", "--config", "config/examined.yaml")
    said = projects.finish(start(inside, project, *doctor))
    assert [line[:5] for line in said.splitlines() if " cores, " in line] == ["node1", "node2"]


def test_the_links_between_the_nodes_of_an_allocation_are_calibrated(project, inside):
    write_study(project, "linked")
    words = ("--config", "config/linked.yaml", "--repeats", "1")
    projects.finish(start(inside, project, "nodewise", "calibrate", *words))
    found = read_calibration(project / "results/linked/calibration/calibration.json")
    assert (found.kind, found.cluster.label) == ("measured", "our Slurm")
    (launch,) = found.launches
    assert launch.transfer.round_trip_s > 0 and launch.all_reduces
    wait_until(lambda: not ssh_hosts.agents(project))


@pytest.mark.skipif(
    find_spec(EXECUTOR) is None and "CI" not in os.environ, reason="not installed: make slurm"
)
def test_snakemake_submits_a_cell_as_a_job(project, inside):
    record = write_study(project, "submitted")
    how = ("--profile", "profiles/slurm", "--configfile", "config/submitted.yaml")
    projects.finish(projects.start(project, *inside("snakemake", record, *how, at=project)))
    check(read_record(project / record), "our Slurm")


def test_a_job_out_of_time_says_so_and_the_cell_can_be_measured_in_another(project, inside):
    run = start(inside, project, *measure(LONG, "ended.json"))
    wait_until(lambda: len(ssh_hosts.agents(project)) >= 6, 120, run)
    job = slurm_nodes.said(inside, "squeue", "-h", "-o", "%A").strip()
    slurm_nodes.said(inside, "scontrol", "update", f"JobId={job}", "EndTime=now+1")
    assert f"nodewise: the Slurm job {job} has ended (" in projects.finish(run, 2)
    assert not (project / "ended.json").exists()
    wait_until(lambda: not ssh_hosts.agents(project))


def test_outside_an_allocation_or_with_too_few_nodes_one_line_says_so(project, inside):
    outside = inside(*measure(LONG, "outside.json"), at=project)
    said = projects.finish(projects.start(project, *outside), 2)
    *_, line = said.splitlines()
    assert line.startswith("nodewise: cluster: kind slurm measures inside an allocation only: sal")
    assert not (project / "outside.json").exists()
    projects.finish(start(inside, project, *measure(f"{LONG} --nodes 3", "many.json")), 1)
    reason = "3 nodes need as many in the allocation, not 2. To allow it, run: salloc --nodes=3"
    assert read_record(project / "many.json").failure.reason == reason

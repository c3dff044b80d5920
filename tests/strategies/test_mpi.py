"""Cells that train with MPI, started by the real command, and MPI ranks alone (mpi_job.py)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rank_cells import (
    assert_a_killed_worker_is_named,
    assert_sent_as_in_a_ring,
    finish,
    project_of,
    start,
)
from traces import assert_gone, needs_emulated_nodes, slower, traces

SCRIPT = Path(__file__).with_name("mpi_job.py")


@pytest.fixture(scope="module")
def ranks():
    """Return the observations of each of three ranks."""
    one_thread = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # Otherwise no node could be entered.
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


@pytest.mark.alone
def test_waiting_a_second_for_a_peer_takes_hardly_any_cpu_time(ranks):
    """By default MPI waits actively: the rank would use the whole second."""
    assert max(rank["waiting_cpu_s"] for rank in ranks) <= 0.05 * slower()


@pytest.mark.alone
def test_ranks_can_be_reached_at_their_own_address_only(ranks):
    assert {address for rank in ranks for address in rank["listening"]} == {"127.0.0.1"}


SMALL = 'mount -t tmpfs -o size=1m none /dev/shm && "$@"; code=$?; ls /dev/shm; exit $code'


@pytest.mark.timeout(60)
def test_a_full_dev_shm_is_named_and_nothing_is_left_there():
    """The folder is a small tmpfs mount that only this child process sees."""
    alone = ["unshare", "--mount"] if os.getuid() == 0 else ["unshare", "--mount", "-r"]
    done = subprocess.run(
        [*alone, "sh", "-c", SMALL, "sh", sys.executable, SCRIPT],
        check=False,
        capture_output=True,
        text=True,
        timeout=90,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    said = "/dev/shm is full: 3 ranks of MPI take 6 MB of it, 1.0 MB are free"  # noqa: S108
    assert said in done.stderr.splitlines()[-1]
    assert done.stdout == ""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Return a copy of the project with its dataset prepared."""
    return project_of("mpi", tmp_path_factory.mktemp("mpi"))


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize("nodes", ["local", pytest.param("emulated", marks=needs_emulated_nodes)])
def test_it_trains_and_sends_what_a_ring_sends_over_the_network(project, nodes):
    """With shared memory, which MPI prefers on one machine, the network would carry nothing."""
    before = traces(str(project))
    record = finish(project, nodes, start(project, "mpi", nodes))
    assert_gone(before, str(project))
    assert_sent_as_in_a_ring(record)
    assert {"mpi4py", "mpich"} <= record.provenance.versions.keys()


@pytest.mark.alone
@pytest.mark.slow
@needs_emulated_nodes
def test_a_killed_worker_ends_its_cell_within_15_s_and_is_named(project):
    assert_a_killed_worker_is_named(project, "mpi")

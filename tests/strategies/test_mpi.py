"""Ranks of MPI wait without spinning, are private, and say what they lack (mpi_job.py)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from everywhere import everywhere
from nodewise.strategies.mpi import pmi
from traces import slower

SCRIPT = Path(__file__).with_name("mpi_job.py")


def run(*wrapped):
    """Run the job, in `wrapped` if given."""
    return subprocess.run(
        [*wrapped, sys.executable, SCRIPT],
        check=False,
        capture_output=True,
        text=True,
        timeout=200,
        # With several threads, no node could be entered.
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": "tests"},
    )


@pytest.mark.alone
def test_waiting_takes_hardly_any_cpu_time_and_ranks_can_be_reached_at_their_own_address_only():
    """By default MPI waits actively: the rank would use the whole second."""
    done = run()
    assert done.returncode == 0, done.stderr[-2000:]
    ranks = json.loads(done.stdout)
    assert max(rank["waiting_cpu_s"] for rank in ranks) <= 0.05 * slower()
    assert {address for rank in ranks for address in rank["listening"]} == {"127.0.0.1"}


SMALL = 'mount -t tmpfs -o size=1m none /dev/shm && "$@"; code=$?; ls /dev/shm; exit $code'


def test_a_full_dev_shm_is_named_and_nothing_is_left_there():
    """The folder is a small tmpfs mount that only this child process sees."""
    alone = ["unshare", "--mount"] if os.getuid() == 0 else ["unshare", "--mount", "-r"]
    done = run(*alone, "sh", "-c", SMALL, "sh")
    said = "/dev/shm is full: 3 ranks of MPI take 6 MB of it, 1.0 MB are free"  # noqa: S108
    assert said in done.stderr.splitlines()[-1]
    assert done.stdout == ""


def test_all_ranks_of_a_launch_give_it_one_name_and_no_other_launch_has_it():
    """MPICH uses this name for shared memory in a folder that the whole machine shares."""

    def work(peers):
        return [pmi.Space(peers).answer("cmd=get_my_kvsname") for _ in range(2)]

    first, *others = everywhere(3, work)
    assert others == [first] * 2
    assert len(set(first)) == 2

"""Emulated nodes keep to their CPU share and link rate and leave nothing behind after a cell."""

import json
import signal
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest
from node_job import BUSY_S

import projects
import ten_steps
from local_job import train_cases
from nodewise.cluster import cgroup
from nodewise.cluster.emulated import EmulatedNodes
from nodewise.cluster.kinds import emulated as kinds
from quiet import when_quiet, with_free_cores
from traces import assert_gone, needs_emulated_nodes, traces

SCRIPT = Path(__file__).with_name("node_job.py")
pytestmark = [pytest.mark.slow, pytest.mark.alone, needs_emulated_nodes]


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path):
    before = traces(str(tmp_path))
    yield
    assert_gone(before, str(tmp_path))


def start(tmp_path, what):
    return projects.start(Path.cwd(), sys.executable, str(SCRIPT), what, str(tmp_path))


def observed(tmp_path, what):
    return json.loads(projects.python(SCRIPT, what, tmp_path))


def test_nodes_get_their_shares_of_a_core_once_they_are_throttled_a_straggler_its_own(tmp_path):
    """With 0.05 cores, the usual period would give a quota below the kernel's minimum."""
    seen = when_quiet(lambda: with_free_cores(observed(tmp_path, "straggler")))
    shares = [0.2, 0.05]
    assert [node["held"] for node in seen["nodes"]] == pytest.approx(shares, rel=0.1, abs=0.01)
    for cpu, used in zip(shares, seen["counted"], strict=True):
        assert used["periods"] > 0.5 * BUSY_S / max(0.010, 0.001 / cpu)
        assert used["throttled_periods"] > 0.8 * used["periods"]
        assert used["throttled_s"] == pytest.approx((1 - cpu) * BUSY_S, rel=0.2)


def test_workers_of_one_machine_share_its_link_and_have_a_fast_one_between_them(tmp_path):
    seen = when_quiet(lambda: observed(tmp_path, "machines"))
    workers, sent = seen["nodes"], seen["counted"]
    wire_s = 5_000_000 * 8 / 100e6
    assert 0.85 * wire_s < workers[2]["between"] < 2 * wire_s
    assert workers[1]["inside"] < wire_s / 2
    inside, _, between, _ = sent  # bytes that left each of the two machines, after each stream
    assert inside < 100_000  # Traffic between neighbours does not leave their machine.
    assert between > 5_000_000


def test_two_workers_in_each_of_two_machines_train_what_one_process_trains(tmp_path, run_job):
    one = ten_steps.Case("single", {}, 1, "sgd_momentum")
    four = ten_steps.Case("custom_loop", {}, 4, "sgd_momentum")
    machines = EmulatedNodes(4, kinds.Emulated(devices_per_node=2))
    run_job(train_cases, tmp_path, {"one": one}, ten_steps.train)
    run_job(train_cases, tmp_path, {"four": four}, ten_steps.train, machines)
    expected = dict(np.load(tmp_path / "one/fused~0.npz"))
    for rank in range(4):
        found = np.load(tmp_path / f"four/fused~{rank}.npz")
        for name, array in expected.items():
            np.testing.assert_allclose(found[name], array, atol=1e-5)


def test_a_worker_that_vanishes_in_a_meeting_is_named(tmp_path):
    """The link vanishes with the worker, while the launcher may be reading its counters."""
    with start(tmp_path, "vanish") as job:
        said, _ = job.communicate(timeout=60)
    assert job.returncode != 0
    assert said.rstrip().endswith("WorkerError: rank 1: killed by SIGKILL")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_launcher_leaves_nothing(tmp_path, number):
    with start(tmp_path, "sleep") as job:
        assert job.stdout.readline() == "asleep\n"
        assert traces(str(tmp_path))["groups"]
        job.send_signal(number)
        job.wait(30)


def test_the_next_run_removes_the_groups_of_a_launcher_killed_with_its_guard(tmp_path):
    with start(tmp_path, "sleep") as job:
        assert job.stdout.readline() == "asleep\n"
        family = [psutil.Process(job.pid), *psutil.Process(job.pid).children(recursive=True)]
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
    psutil.wait_procs(family, 30)
    assert list(cgroup.find_base().glob("nodewise-*"))
    cgroup.remove_stale()

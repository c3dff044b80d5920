"""A duty cycle holds real processes to their share, reports when it cannot, and releases them."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from nodewise.cluster.duty_cycle import TOLERANCE, Share, why_not_held
from quiet import BusyError, when_quiet
from traces import runs, slower

SCRIPT = Path(__file__).with_name("duty_job.py")
WITHIN_S = 30
SECONDS = 4.5


@pytest.mark.parametrize(
    ("got", "withheld", "seconds", "held"),
    [
        (0.2, 0.0, 10.0, True),
        (0.0, 0.0, 10.0, True),  # The node did not want more.
        (0.185, 0.015, 10.0, True),
        (0.215, 0.0, 10.0, True),
        (0.05, 0.15, 2.9, True),  # It is too early to tell.
        (0.175, 0.025, 10.0, False),
        (0.1, 0.025, 10.0, False),  # The node wanted part of its share and did not get it.
        (0.225, 0.0, 10.0, False),
        (0.05, 0.15, 3.0, False),
    ],
)
def test_a_node_is_held_within_a_tenth_of_its_share(got, withheld, seconds, held):
    reason = why_not_held([Share(0, 0.2, 0.2, 0.0, 9.0), Share(1, 0.2, got, withheld, seconds)])
    assert (reason is None) == held
    assert held or reason.startswith(f"node 1 got {got:.3f} of a core instead of 0.200 (")


class Job:
    """The running script, and all processes that were ever part of it."""

    def __init__(self, *arguments):
        command, pipe = [sys.executable, SCRIPT, *map(str, arguments)], subprocess.PIPE
        self.process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        first = json.loads(line)
        self.controller = psutil.Process(first["controller"])
        self.nodes = [psutil.Process(pid) for pid in first["nodes"]]

    def line(self):
        return json.loads(self.process.stdout.readline() or "{}")

    def finish(self):
        out, err = self.process.communicate(timeout=60)
        return [json.loads(line) for line in out.splitlines()], err

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Check that no process of the script runs or is stopped, whatever happened."""
        try:
            self.process.wait(WITHIN_S)
            _, left = psutil.wait_procs([self.controller, *self.nodes], WITHIN_S)
            assert not left
        finally:
            self.process.kill()
            for process in (*self.nodes, self.controller):
                if runs(process.pid):
                    process.kill()
            self.process.communicate()


def spent(nodes):
    return [sum(node.cpu_times()[:2]) for node in nodes]


def held(*arguments):
    """Run a job until its nodes are held to their share; return the shares and the last report.

    The shares are those that the kernel counts.

    Raises:
        BusyError: the nodes were refused because others used the cores, or nearly so.
    """
    with Job(*arguments) as job:
        job.line()
        try:
            before, started = spent(job.nodes), time.monotonic()
            time.sleep(2.5)
            after, ended = spent(job.nodes), time.monotonic()
        except psutil.NoSuchProcess:  # refused meanwhile
            pass
        lines, err = job.finish()
    if err:
        assert err.startswith("refused: node ")
        raise BusyError(err)
    report = [line for line in lines if "shares" in line][-1]
    withheld = max(share["withheld"] / share["asked"] for share in report["shares"])
    if withheld > 0.8 * TOLERANCE:
        raise BusyError(f"a node had to wait for {withheld:.0%} of its share")
    used = [now - then for then, now in zip(before, after, strict=True)]
    return [seconds / (ended - started) for seconds in used], report


@pytest.mark.slow
@pytest.mark.alone
def test_busy_nodes_of_many_threads_get_their_share_and_no_more(tmp_path):
    got, report = when_quiet(lambda: held(tmp_path, "crowd", 2, 0.2, SECONDS))
    # What it takes to stop and continue a crowd of threads does not count as used.
    reported = [share["got"] for share in report["shares"]]
    stopping = [all_of_it - used for all_of_it, used in zip(got, reported, strict=True)]
    assert max(stopping) < 0.02 + 0.05 * slower()
    assert min(stopping) > -0.02
    assert reported == pytest.approx([0.2] * 2, rel=TOLERANCE)
    assert report["controller"] < 0.08 * slower()


@pytest.mark.slow
@pytest.mark.alone
def test_what_cannot_be_held_is_refused_in_one_line(tmp_path):
    with Job(tmp_path, "busy", 8, 0.5, 20, 2) as job:
        _, err = job.finish()
    assert job.process.returncode == 1
    assert err.startswith("refused: node ") and "of a core instead of 0.500" in err
    assert err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize(
    ("launcher", "controller"),
    [
        (signal.SIGTERM, None),
        (None, signal.SIGKILL),
        (None, signal.SIGSTOP),
        (signal.SIGKILL, signal.SIGKILL),
    ],
)
def test_nothing_stays_when_the_launcher_or_the_controller_ends(tmp_path, launcher, controller):
    with Job(tmp_path, "busy", 3, 0.2, 50) as job:
        job.line()
        if controller:
            job.controller.send_signal(controller)
        if launcher:
            job.process.send_signal(launcher)
        _, err = job.finish()
    assert launcher or "refused: the process that held the nodes" in err

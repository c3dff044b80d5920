"""A duty cycle holds real processes to their share, reports when it cannot, and releases them."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from nodewise.cluster.duty_share import TOLERANCE, Share
from traces import runs, slower

pytestmark = [pytest.mark.slow, pytest.mark.alone]

SCRIPT = Path(__file__).with_name("duty_job.py")
NOBODY = 65534
WITHIN_S = 8
# Other programs may use this machine: wait for them for a while, and retry if they come back.
CALM_WITHIN_S = 20
ATTEMPTS = 4


class Job:
    """The running script: what it printed, and all processes that were ever part of it."""

    def __init__(self, *arguments):
        self.logs = tempfile.TemporaryDirectory()
        Path(self.logs.name).chmod(0o777)
        self.process = subprocess.Popen(
            [sys.executable, SCRIPT, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"LOGS": self.logs.name},
        )
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
            self.logs.cleanup()


def measured(nodes, seconds):
    """Return the shares that `nodes` get in this time, as the kernel counts them."""

    def spent():
        return [sum(node.cpu_times()[:2]) for node in nodes]

    before, started = spent(), time.monotonic()
    time.sleep(seconds)
    elapsed = time.monotonic() - started
    return [(b - a) / elapsed for a, b in zip(before, spent(), strict=True)]


def wait_for_calm():
    """Wait until hardly anything else runs on this machine, at most CALM_WITHIN_S seconds."""
    deadline = time.monotonic() + CALM_WITHIN_S
    while psutil.cpu_percent(1) > 10 and time.monotonic() < deadline:
        pass


def attempt(*arguments):
    """Run a job; return the shares that the kernel counted, the job's last report and stderr."""
    wait_for_calm()
    with Job(*arguments) as job:
        job.line()
        try:
            got = measured(job.nodes, 2.5)
        except psutil.NoSuchProcess:  # The nodes were refused meanwhile; stderr says so.
            got = []
        lines, err = job.finish()
    reports = [line for line in lines if "shares" in line]
    return got, reports[-1], err


def held(*arguments):
    """Run a job until its nodes are held to their share; return their shares and the last report.

    The test is skipped if the job was refused in every attempt and the last refusal was right: the
    host took more time from the cores of this machine than the job says was withheld from the
    nodes.
    """
    for _ in range(ATTEMPTS):
        before = psutil.cpu_times().steal
        got, report, err = attempt(*arguments)
        taken = psutil.cpu_times().steal - before
        if not err:
            return got, report
    withheld = sum(share["withheld"] * share["seconds"] for share in report["shares"])
    assert withheld < taken, err
    pytest.skip(f"the host took {taken:.1f} s of the cores: nodes were refused")


@pytest.mark.parametrize(("work", "nodes"), [("busy", 1), ("busy", 4), ("crowd", 2), ("crowd", 4)])
def test_busy_nodes_get_their_share_and_no_more(work, nodes):
    got, report = held(work, nodes, 0.2, 4.5)
    # The cost of stopping and continuing a crowd of threads is reported separately.
    stopping = max(share["stopping"] for share in report["shares"])
    assert stopping < (0.01 if work == "busy" else 0.05) * slower()
    assert got == pytest.approx([0.2 + stopping] * nodes, rel=TOLERANCE)
    for share in report["shares"]:
        assert share["got"] == pytest.approx(0.2, rel=TOLERANCE)


def test_the_controller_uses_little_cpu_itself():
    bound = 0.05 * slower()
    assert any(attempt("busy", 4, 0.2, 4)[1]["controller"] < bound for _ in range(2))


def test_nodes_that_sleep_by_turns_are_not_called_held_back():
    _, report = held("mixed", 4, 0.2, 4.5)
    for share in report["shares"]:
        assert 0.02 < share["got"] < 0.15  # They compute a twelfth of the time, at full speed.


def test_a_node_that_wants_nothing_is_held():
    _, report, err = attempt("asleep", 2, 0.2, 4)
    assert not err
    assert all(share["withheld"] < 0.001 for share in report["shares"])


def test_shares_near_all_of_the_machine_are_held_or_refused_never_silently_missed():
    got, _, err = attempt("busy", 4, 0.4, 4.5)
    held = got == pytest.approx([0.4] * 4, rel=1.5 * TOLERANCE)
    assert held or "refused: node" in err


@pytest.mark.parametrize("arguments", [(8, 0.5, "--cores", 2), (2, 0.7, "--cores", 1)])
def test_what_cannot_be_held_is_refused_in_one_line(arguments):
    nodes, share, *more = arguments
    with Job("busy", nodes, share, 20, *more) as job:
        _, err = job.finish()
    assert job.process.returncode == 1
    assert err.startswith("refused: node ")
    assert f"of a core instead of {share:.3f}" in err
    assert err.count("\n") == 1


def test_lifting_the_limit_lets_the_nodes_run_at_once():
    with Job("busy", 1, 0.1, 1) as job:
        lines, err = job.finish()
    assert not err
    assert lines[-1]["after"][0] > 0.3


@pytest.mark.parametrize("options", [[], ["--namespace"]])
def test_an_ordinary_user_may_do_this_too(options):
    user = NOBODY if os.getuid() == 0 else os.getuid()
    become = ["--user", user] if os.getuid() == 0 else []
    with Job("busy", 2, 0.2, 0.1, *become, *options) as job:
        assert job.controller.uids().effective == user
    _, report = held("busy", 2, 0.2, 4.5, *become, *options)
    assert all(Share(**share).held for share in report["shares"])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_launcher_that_is_ended_takes_controller_and_nodes_along(number):
    with Job("busy", 3, 0.2, 50) as job:
        job.line()
        job.process.send_signal(number)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_controller_that_is_killed_or_hangs_is_noticed(number):
    with Job("busy", 3, 0.2, 50) as job:
        job.line()
        job.controller.send_signal(number)
        _, err = job.finish()
    assert "refused: the process that held the nodes" in err


def test_a_killed_controller_leaves_no_node_stopped():
    with Job("busy", 1, 0.1, 50) as job:
        job.line()
        job.process.send_signal(signal.SIGSTOP)  # so that the launcher cannot end the node first
        job.controller.kill()
        job.process.send_signal(signal.SIGCONT)
        _, err = job.finish()
        assert not runs(job.nodes[0].pid)
    assert err.startswith("refused")


def test_a_node_that_dies_ends_the_job_and_nobody_else():
    with Job("dies", 3, 0.2, 50) as job:
        _, err = job.finish()
    assert "rank 0: killed by SIGKILL" in err


def test_a_launcher_killed_together_with_its_controller_leaves_nothing():
    with Job("busy", 3, 0.2, 50) as job:
        job.line()
        job.controller.kill()
        job.process.kill()

"""Workers are real processes: what they return is heard, what kills them is told, none stays."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time

import psutil
import pytest

from nodewise.clusters import processes
from nodewise.clusters.base import NotPermittedError
from nodewise.errors import RefusedError

pytestmark = pytest.mark.alone


def ignore(*what):
    """Hear something and do nothing."""


def run(work, tmp_path, size=3, time_limit_s=20.0, on_message=ignore, on_meeting=ignore):
    return processes.run(
        size,
        work,
        logs=tmp_path / "logs",
        time_limit_s=time_limit_s,
        on_message=on_message,
        on_meeting=on_meeting,
    )


@pytest.fixture(autouse=True)
def no_child_is_left():
    yield
    assert psutil.Process().children(recursive=True) == []


def test_results_come_by_rank_however_large(tmp_path):
    heard = []

    def work(rank, channel):
        channel.send({"progress": rank})
        time.sleep(0.05 * (3 - rank))
        return {"rank": rank, "numbers": list(range(300_000))}

    results = run(work, tmp_path, on_message=lambda rank, message: heard.append((rank, message)))
    assert [result["rank"] for result in results] == [0, 1, 2]
    assert all(len(result["numbers"]) == 300_000 for result in results)
    assert sorted(rank for rank, _ in heard) == [0, 1, 2]


def test_each_worker_prints_to_its_own_log(tmp_path):
    def work(rank, channel):
        print("hello from", rank, flush=True)
        os.system("echo and from a child")  # noqa: S605
        return {}

    run(work, tmp_path)
    assert (tmp_path / "logs" / "rank~2.log").read_text() == "hello from 2\nand from a child\n"


def test_an_exception_names_the_rank_and_shows_its_last_lines(tmp_path):
    def work(rank, channel):
        if rank == 1:
            print("about to fail", flush=True)
            raise RuntimeError("no gradient\nsecond line")
        time.sleep(60)

    started = time.monotonic()
    with pytest.raises(processes.WorkerError) as raised:
        run(work, tmp_path)
    assert time.monotonic() - started < 10
    assert raised.value.rank == 1
    assert raised.value.reason == "rank 1: RuntimeError: no gradient"
    assert raised.value.log_tail[0] == "about to fail"
    assert len(raised.value.log_tail) <= 30


def test_a_killed_worker_is_named_not_the_peers_that_miss_it(tmp_path):
    class UnavailableError(Exception):
        """What TensorFlow raises in the peers of a worker that died."""

    def work(rank, channel):
        if rank == 2:
            time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.1)
        raise UnavailableError("Connection reset by peer")

    with pytest.raises(processes.WorkerError) as raised:
        run(work, tmp_path)
    assert raised.value.reason == "rank 2: killed by SIGKILL"


@pytest.mark.parametrize("error", [BrokenPipeError, ConnectionResetError, TimeoutError])
def test_the_rank_that_failed_of_itself_is_named_not_a_peer_that_noticed_first(tmp_path, error):
    def work(rank, channel):
        if rank == 2:
            time.sleep(0.3)
            raise ValueError("no such layer")
        raise error

    with pytest.raises(processes.WorkerError) as raised:
        run(work, tmp_path)
    assert raised.value.reason == "rank 2: ValueError: no such layer"


def test_what_a_worker_refuses_is_told_as_it_is(tmp_path):
    def work(rank, channel):
        if rank == 1:
            time.sleep(0.3)
            raise RefusedError("mine: cannot be cut")
        raise ConnectionResetError

    with pytest.raises(RefusedError, match=r"^mine: cannot be cut$"):
        run(work, tmp_path)


def test_what_the_machine_does_not_permit_a_worker_is_told_with_its_remedy(tmp_path):
    def work(rank, channel):
        raise NotPermittedError("no rate limit: the kernel lacks it", "sudo modprobe sch_tbf")

    with pytest.raises(NotPermittedError, match=r"^no rate limit: the kernel lacks it$") as raised:
        run(work, tmp_path)
    assert raised.value.command == "sudo modprobe sch_tbf"


def test_of_two_that_fail_of_themselves_the_first_is_named(tmp_path):
    def work(rank, channel):
        if rank == 0:
            time.sleep(0.5)
        raise ValueError("of itself, or for what the other did")

    with pytest.raises(processes.WorkerError) as raised:
        run(work, tmp_path, size=2)
    assert raised.value.rank == 1


def test_a_server_that_dies_when_it_is_done_fails_a_job_that_still_runs(tmp_path):
    """A parameter server hands in its result at once, and serves until the launcher ends it."""

    def work(rank, channel):
        if rank == 1:
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()
            return {}
        time.sleep(30)
        return {}

    with pytest.raises(processes.WorkerError, match=r"^rank 1: killed by SIGKILL$"):
        run(work, tmp_path, size=2)


@pytest.mark.parametrize("code", [0, 1])
def test_what_a_worker_starts_ends_with_it_and_holds_nothing_of_the_launcher(tmp_path, code):
    """Such as a pool of processes in a user's model, which a killed parent does not end."""
    ours, other = socket.socketpair()

    def work(rank, channel):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(ours.fileno())
            os.write(writing, b"let go")
            time.sleep(60)
            os._exit(0)
        (tmp_path / "child").write_text(str(child))
        told = os.read(reading, 10).decode()
        if code:
            raise ValueError(told)
        return {"told": told}

    with ours, other:
        if code:
            with pytest.raises(processes.WorkerError, match="ValueError: let go"):
                run(work, tmp_path, size=1)
        else:
            assert run(work, tmp_path, size=1) == [{"told": "let go"}]
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: not psutil.pid_exists(child), 5)


def test_what_a_killed_worker_started_ends_with_its_job(tmp_path):
    def work(rank, channel):
        if rank == 1:
            waiting = subprocess.Popen(["sleep", "60"])
            (tmp_path / "child").write_text(str(waiting.pid))
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)

    with pytest.raises(processes.WorkerError, match="rank 1: killed by SIGKILL"):
        run(work, tmp_path, size=2)
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: not psutil.pid_exists(child), 10)  # who adopted it has to see its end


def test_a_worker_that_just_leaves_is_named(tmp_path):
    def work(rank, channel):
        if rank == 0:
            os._exit(0)
        time.sleep(60)

    with pytest.raises(processes.WorkerError, match="rank 0: ended with exit code 0 and no result"):
        run(work, tmp_path)


def test_a_job_has_a_time_limit_even_if_a_worker_is_stopped(tmp_path):
    def work(rank, channel):
        os.kill(os.getpid(), signal.SIGSTOP)

    with pytest.raises(processes.WorkerError, match=r"not finished within 0\.5 s"):
        run(work, tmp_path, time_limit_s=0.5)


def test_a_worker_that_is_done_waits_for_the_others(tmp_path):
    """Leaving would break the connections that the others may still need."""

    def work(rank, channel):
        if rank == 0:
            (tmp_path / "pid").write_text(str(os.getpid()))
            return {"alive": True}
        time.sleep(0.5)
        return {"alive": psutil.pid_exists(int((tmp_path / "pid").read_text()))}

    assert run(work, tmp_path, size=2)[1]["alive"]


def test_nobody_leaves_a_meeting_before_all_are_there_and_the_launcher_has_acted(tmp_path):
    acted = tmp_path / "acted"

    def work(rank, channel):
        time.sleep(0.2 * rank)
        channel.meet("first")
        early = not acted.exists()
        channel.meet("second")
        return {"early": early}

    def on_meeting(name, pids):
        if name == "first":
            time.sleep(0.2)
            acted.touch()
            assert all(psutil.pid_exists(pid) for pid in pids)

    assert run(work, tmp_path, on_meeting=on_meeting) == [{"early": False}] * 3


LAUNCHER = """
import os, signal, subprocess, sys, time
from pathlib import Path
from nodewise.clusters import processes

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it

def work(rank, channel):
    started = subprocess.Popen(["sleep", "120"])
    Path(sys.argv[1], f"pid{rank}").write_text(f"{os.getpid()} {started.pid}")
    time.sleep(120)

processes.run(3, work, logs=Path(sys.argv[1]), time_limit_s=120, on_message=print, on_meeting=print)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_and_what_they_started_end_with_their_launcher(tmp_path, number):
    with subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, tmp_path], stderr=subprocess.DEVNULL
    ) as launcher:
        files = [tmp_path / f"pid{rank}" for rank in range(3)]
        wait_until(lambda: all(file.exists() and file.read_text() for file in files), 20)
        pids = [int(pid) for file in files for pid in file.read_text().split()]
        assert len(pids) == 6
        launcher.send_signal(number)
        launcher.wait(10)
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in pids), 10)


def test_the_launcher_ends_with_its_parent(tmp_path):
    parent_code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {LAUNCHER!r}"
    parent_code += ", sys.argv[1]]).wait()"
    with subprocess.Popen(
        [sys.executable, "-c", parent_code, tmp_path], stderr=subprocess.DEVNULL
    ) as parent:
        files = [tmp_path / f"pid{rank}" for rank in range(3)]
        wait_until(lambda: all(file.exists() and file.read_text() for file in files), 20)
        family = psutil.Process(parent.pid).children(recursive=True)
        assert len(family) > 6  # the launcher, its workers, what they started
        parent.kill()
    wait_until(lambda: not any(process.is_running() for process in family), 10)


def wait_until(condition, seconds):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not within the time"
        time.sleep(0.05)


@pytest.mark.parametrize("dying", [0, 2])
def test_a_worker_that_dies_while_it_waits_for_the_others_is_named(tmp_path, dying):
    """Until the launcher is done with a meeting, all workers wait in it."""

    def work(rank, channel):
        channel.meet("warm")
        time.sleep(60)
        return {}

    def kill(name, pids):
        os.kill(pids[dying], signal.SIGKILL)
        return False

    with pytest.raises(processes.WorkerError, match="killed by SIGKILL") as raised:
        run(work, tmp_path, on_meeting=kill)
    assert raised.value.rank == dying


def test_what_a_meeting_needs_of_a_dead_worker_is_no_error_of_the_meeting(tmp_path):
    def work(rank, channel):
        channel.meet("placed")
        return {}

    def place(name, pids):
        os.kill(pids[1], signal.SIGKILL)
        raise ProcessLookupError

    with pytest.raises(processes.WorkerError, match="killed by SIGKILL") as raised:
        run(work, tmp_path, on_meeting=place)
    assert raised.value.rank == 1

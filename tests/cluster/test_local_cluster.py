"""Workers are real processes: results arrive, causes of death are reported, no process stays."""

import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import psutil
import pytest

from nodewise.cluster import memory, process
from nodewise.cluster.api import NotPermittedError
from nodewise.core.errors import RefusedError
from traces import runs

pytestmark = pytest.mark.timeout(60)  # The tests wait for processes to end.


def ignore(*what):
    """Ignore a message."""


def run(work, tmp_path, size=3, time_limit_s=20.0, on_message=ignore, on_meeting=ignore):
    job = process.Job(
        size,
        work,
        logs=tmp_path / "logs",
        time_limit_s=time_limit_s,
        preload=["pytest"],  # This module imports it, so workers need it.
    )
    job.on_message, job.on_meeting = on_message, on_meeting
    return job.run()


@pytest.fixture(autouse=True)
def no_worker_is_left():
    """Check that no worker stays: only workers lead a process group, the forkserver does not."""
    before = group_leaders()  # group leaders of others, such as the browser of other tests
    yield
    assert group_leaders() <= before


def group_leaders():
    """Return the child processes of this process that lead a process group."""
    children = psutil.Process().children(recursive=True)
    return {child.pid for child in children if os.getpgid(child.pid) == child.pid}


def tell_much(rank, channel):
    channel.send({"progress": rank})
    time.sleep(0.05 * (3 - rank))
    return {"rank": rank, "numbers": list(range(300_000))}


def test_results_come_by_rank_however_large(tmp_path):
    heard = []
    results = run(tell_much, tmp_path, on_message=lambda *told: heard.append(told))
    assert [result["rank"] for result in results] == [0, 1, 2]
    assert all(len(result["numbers"]) == 300_000 for result in results)
    assert sorted(rank for rank, _ in heard) == [0, 1, 2]


def say_hello(rank, channel):
    print("hello from", rank, flush=True)
    os.system("echo and from a child")  # noqa: S605
    return {}


def test_each_worker_prints_to_its_own_log(tmp_path):
    run(say_hello, tmp_path)
    assert (tmp_path / "logs" / "rank~2.log").read_text() == "hello from 2\nand from a child\n"


def fail_on_rank_1(rank, channel):
    if rank == 1:
        print("about to fail", flush=True)
        raise RuntimeError("no gradient\nsecond line")
    time.sleep(60)


def test_an_exception_names_the_rank_and_shows_its_last_lines(tmp_path):
    started = time.monotonic()
    with pytest.raises(process.WorkerError) as raised:
        run(fail_on_rank_1, tmp_path)
    assert time.monotonic() - started < 10
    assert raised.value.rank == 1
    assert raised.value.reason == "rank 1: RuntimeError: no gradient"
    assert raised.value.log_tail[0] == "about to fail"
    assert len(raised.value.log_tail) <= 30


class UnavailableError(Exception):
    """The error that TensorFlow raises in the peers of a worker that died."""


def be_killed_on_rank_2(rank, channel):
    if rank == 2:
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.1)
    raise UnavailableError("Connection reset by peer")


def notice_first(rank, channel, *, error):
    if rank == 2:
        time.sleep(0.3)
        raise ValueError("no such layer")
    raise error


def refuse_on_rank_1(rank, channel):
    if rank == 1:
        time.sleep(0.3)
        raise RefusedError("mine: cannot be cut")
    raise ConnectionResetError


def test_what_a_worker_refuses_is_told_as_it_is(tmp_path):
    with pytest.raises(RefusedError, match=r"^mine: cannot be cut$"):
        run(refuse_on_rank_1, tmp_path)


def lack_something(rank, channel):
    raise NotPermittedError("no rate limit: the kernel lacks it", "sudo modprobe sch_tbf")


def test_what_the_machine_does_not_permit_a_worker_is_told_with_its_remedy(tmp_path):
    with pytest.raises(NotPermittedError, match=r"^no rate limit: the kernel lacks it$") as raised:
        run(lack_something, tmp_path)
    assert raised.value.command == "sudo modprobe sch_tbf"


def fail_first_on_rank_1(rank, channel):
    if rank != 1:
        time.sleep(0.5)
    raise ValueError("of itself, or for what the other did")


def die_when_done_on_rank_1(rank, channel):
    if rank == 1:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()
        return {}
    time.sleep(30)
    return {}


def leave_on_rank_0(rank, channel):
    if rank == 0:
        os._exit(0)
    time.sleep(60)


NOTICED = (BrokenPipeError, ConnectionResetError, TimeoutError)


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        # It names the dead worker, not the peers that miss it.
        (be_killed_on_rank_2, "rank 2: killed by SIGKILL"),
        # It names the worker with the cause, not a peer that noticed it first.
        *((partial(notice_first, error=e), "rank 2: ValueError: no such layer") for e in NOTICED),
        # Of several workers that fail on their own, it names the first.
        (fail_first_on_rank_1, "rank 1: ValueError: of itself, or for what the other did"),
        # A parameter server returns its result at once and serves until the launcher ends it.
        (die_when_done_on_rank_1, "rank 1: killed by SIGKILL"),
        (leave_on_rank_0, "rank 0: ended with exit code 0 and no result"),
    ],
)
def test_the_worker_that_failed_first_of_itself_is_named(tmp_path, work, reason):
    with pytest.raises(process.WorkerError) as raised:
        run(work, tmp_path)
    assert re.fullmatch(reason, raised.value.reason)
    assert f" {raised.value.rank}" in raised.value.reason


def start_a_child(rank, channel, *, folder, ours, code):
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    (folder / "child").write_text(str(child))
    held = {link.readlink() for link in Path(f"/proc/{child}/fd").iterdir()}
    told = "holds it" if Path(ours) in held else "holds nothing"
    if code:
        raise ValueError(told)
    return {"told": told}


@pytest.mark.parametrize("code", [0, 1])
def test_what_a_worker_starts_ends_with_it_and_holds_nothing_of_the_launcher(tmp_path, code):
    """For example a process pool in a user's model, which does not end if its parent is killed."""
    ours, other = socket.socketpair()
    name = str(Path(f"/proc/self/fd/{ours.fileno()}").readlink())
    work = partial(start_a_child, folder=tmp_path, ours=name, code=code)
    with ours, other:
        if code:
            with pytest.raises(process.WorkerError, match="ValueError: holds nothing"):
                run(work, tmp_path, size=1)
        else:
            assert run(work, tmp_path, size=1) == [{"told": "holds nothing"}]
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: not runs(child), 5)


def start_and_be_killed(rank, channel, *, folder):
    if rank == 1:
        waiting = subprocess.Popen(["sleep", "60"])
        (folder / "child").write_text(str(waiting.pid))
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def test_what_a_killed_worker_started_ends_with_its_job(tmp_path):
    with pytest.raises(process.WorkerError, match="rank 1: killed by SIGKILL"):
        run(partial(start_and_be_killed, folder=tmp_path), tmp_path, size=2)
    child = int((tmp_path / "child").read_text())
    wait_until(lambda: not runs(child), 10)


def stop(rank, channel):
    os.kill(os.getpid(), signal.SIGSTOP)


def test_a_job_has_a_time_limit_even_if_a_worker_is_stopped(tmp_path):
    with pytest.raises(process.WorkerError, match=r"not finished within 0\.5 s"):
        run(stop, tmp_path, time_limit_s=0.5)


def be_done_first_on_rank_0(rank, channel, *, folder):
    if rank == 0:
        (folder / "pid").write_text(str(os.getpid()))
        return {"alive": True}
    time.sleep(0.5)
    return {"alive": runs(int((folder / "pid").read_text()))}


def test_a_worker_that_is_done_waits_for_the_others(tmp_path):
    """A worker that left early would break connections that others may still need."""
    assert run(partial(be_done_first_on_rank_0, folder=tmp_path), tmp_path, size=2)[1]["alive"]


def meet_twice(rank, channel, *, acted):
    time.sleep(0.2 * rank)
    channel.meet("first")
    early = not acted.exists()
    channel.meet("second")
    return {"early": early}


def test_nobody_leaves_a_meeting_before_all_are_there_and_the_launcher_has_acted(tmp_path):
    acted = tmp_path / "acted"

    def on_meeting(name, pids):
        if name == "first":
            time.sleep(0.2)
            acted.touch()
            assert all(map(runs, pids))

    work = partial(meet_twice, acted=acted)
    assert run(work, tmp_path, on_meeting=on_meeting) == [{"early": False}] * 3


def repeat(rank, channel):
    blocks = 1
    while channel.meet("timed"):
        blocks += 1
    return {"blocks": blocks}


def test_a_meeting_tells_every_worker_whether_to_repeat(tmp_path):
    answers = iter([True, True, False])
    assert run(repeat, tmp_path, on_meeting=lambda *_: next(answers)) == [{"blocks": 3}] * 3


# In tests of memory, a process gets 1 GB of address space beyond that of an interpreter.
ROOM_BYTES = 1 << 30


def use_much_memory(rank, channel, *, how):
    used = psutil.Process().memory_info().vms
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM_BYTES, used + ROOM_BYTES))
    if how == "python":
        bytearray(2 * ROOM_BYTES)
    print("terminate called after throwing an instance of 'std::bad_alloc'", flush=True)
    os.kill(os.getpid(), signal.SIGABRT)


@pytest.mark.parametrize(
    ("how", "said"), [("python", "MemoryError: "), ("c++", "killed by SIGABRT")]
)
def test_a_worker_that_gets_no_memory_says_so(tmp_path, how, said):
    with pytest.raises(process.WorkerError, match=f"^rank 0: out of memory: {said}$"):
        run(partial(use_much_memory, how=how), tmp_path, size=1)


def be_killed(rank, channel):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_the_kernel_killed_ran_out_of_memory(tmp_path, monkeypatch):
    counted = iter([7])
    monkeypatch.setattr(memory, "kills", lambda: next(counted, 8))
    with pytest.raises(process.WorkerError, match=r"^rank 0: out of memory: killed by SIGKILL$"):
        run(be_killed, tmp_path, size=1)


def kill_its_forkserver(rank, channel):
    if rank == 0:
        os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


def test_a_killed_forkserver_takes_its_workers_along_and_the_next_job_has_another(tmp_path):
    with pytest.raises(process.WorkerError):
        run(kill_its_forkserver, tmp_path)
    assert len(run(tell_much, tmp_path)) == 3


LAUNCHER = """
import os, signal, subprocess, sys, time
from functools import partial
from pathlib import Path
from nodewise.cluster import process


def work(rank, channel):
    started = subprocess.Popen(["sleep", "120"])
    Path(sys.argv[1], f"pid{rank}").write_text(f"{os.getpid()} {started.pid}")
    if sys.argv[2] == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(120)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    process.Job(3, work, logs=Path(sys.argv[1]), time_limit_s=float(sys.argv[3])).run()
"""


@pytest.fixture
def launcher(tmp_path):
    script = tmp_path / "launcher.py"
    script.write_text(LAUNCHER)

    def command(how="run", limit_s=120):
        return [sys.executable, script, tmp_path, how, str(limit_s)]

    return command


def everything_of(launcher, tmp_path):
    """Wait until the launcher's workers are working; return all processes below the launcher."""
    files = [tmp_path / f"pid{rank}" for rank in range(3)]
    wait_until(lambda: all(file.exists() and file.read_text() for file in files), 20)
    family = psutil.Process(launcher).children(recursive=True)
    # the workers and their child processes; the guard, the forkserver and its helper
    assert len(family) >= 3 + 3 + 3
    return family


def assert_end(family):
    wait_until(lambda: not any(runs(process.pid) for process in family), 10)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("how", ["run", "stop"])
def test_workers_and_what_they_started_end_with_their_launcher(tmp_path, launcher, number, how):
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(launcher(how), stderr=subprocess.DEVNULL, env=environment) as process:
        family = everything_of(process.pid, tmp_path)
        process.send_signal(number)
        process.wait(10)
    assert_end(family)
    assert not list(tmp_path.glob("pymp-*"))


def test_an_impatient_user_leaves_nothing_behind(tmp_path, launcher):
    with subprocess.Popen(launcher(), stderr=subprocess.DEVNULL) as process:
        family = everything_of(process.pid, tmp_path)
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(0.003)
    assert_end(family)


def test_the_launcher_ends_with_its_parent(tmp_path, launcher):
    command = [str(part) for part in launcher()]
    parent_code = f"import subprocess; subprocess.Popen({command}).wait()"
    with subprocess.Popen([sys.executable, "-c", parent_code], stderr=subprocess.DEVNULL) as parent:
        wait_until(lambda: psutil.Process(parent.pid).children(), 10)
        family = everything_of(psutil.Process(parent.pid).children()[0].pid, tmp_path)
        family += psutil.Process(parent.pid).children()
        parent.kill()
    assert_end(family)


def test_a_launcher_that_waits_for_an_import_ends_with_its_parent(tmp_path, launcher):
    """Importing TensorFlow keeps the forkserver busy for seconds."""
    importing = tmp_path / "importing"
    (tmp_path / "slow_import.py").write_text(
        f"import pathlib, time\npathlib.Path({str(importing)!r}).touch()\ntime.sleep(7)\n"
    )
    command = [str(part) for part in launcher()]
    slow = 'process.Job(3, work, preload=["slow_import"], '
    launcher()[1].write_text(LAUNCHER.replace("process.Job(3, work, ", slow))
    parent_code = f"import subprocess; subprocess.Popen({command}).wait()"
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", parent_code], env=environment) as parent:
        wait_until(importing.exists, 20)
        family = psutil.Process(parent.pid).children(recursive=True)
        (ours,) = psutil.Process(parent.pid).children()
        parent.kill()
    wait_until(lambda: not runs(ours.pid), 5)
    assert_end(family)


def test_a_launcher_that_hangs_is_killed_and_its_workers_with_it(tmp_path, launcher):
    quick = "process.START_WITHIN_S = 5\n    process.Job("
    launcher()[1].write_text(LAUNCHER.replace("process.Job(", quick))
    with subprocess.Popen(launcher(limit_s=1), stderr=subprocess.DEVNULL) as process:
        family = everything_of(process.pid, tmp_path)
        process.send_signal(signal.SIGSTOP)
        assert process.wait(15) == -signal.SIGKILL
    assert_end(family)


def wait_until(condition, seconds):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not within the time"
        time.sleep(0.05)


def meet_and_sleep(rank, channel):
    channel.meet("warm")
    time.sleep(60)
    return {}


@pytest.mark.parametrize("dying", [0, 2])
def test_a_worker_that_dies_while_it_waits_for_the_others_is_named(tmp_path, dying):
    """All workers wait in a meeting until the launcher has finished it."""

    def kill(name, pids):
        os.kill(pids[dying], signal.SIGKILL)
        return False

    with pytest.raises(process.WorkerError, match="killed by SIGKILL") as raised:
        run(meet_and_sleep, tmp_path, on_meeting=kill)
    assert raised.value.rank == dying


def test_what_a_meeting_needs_of_a_dead_worker_is_no_error_of_the_meeting(tmp_path):
    def place(name, pids):
        os.kill(pids[1], signal.SIGKILL)
        raise ProcessLookupError

    with pytest.raises(process.WorkerError, match="killed by SIGKILL") as raised:
        run(meet_and_sleep, tmp_path, on_meeting=place)
    assert raised.value.rank == 1

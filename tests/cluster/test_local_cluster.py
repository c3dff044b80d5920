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

from nodewise.cluster import memory, namespace, process
from nodewise.cluster.process import WorkerError
from nodewise.core.errors import RefusedError
from traces import runs, wait_until


def job(work, tmp_path, size=3, time_limit_s=60.0):
    preload = ["pytest"]  # This module imports it, so workers need it.
    logs = tmp_path / "logs"
    return process.Job(size, work, logs=logs, time_limit_s=time_limit_s, preload=preload)


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


def test_a_port_that_is_listened_on_is_not_free():
    (port,) = namespace.free_ports(1)
    with socket.create_server(("127.0.0.1", port)):
        assert port not in namespace.free_ports(2)
    assert port in namespace.free_ports(1)


def tell_much(rank, channel):
    channel.send({"progress": rank})
    print("hello from", rank, flush=True)
    os.system("echo and from a child")  # noqa: S605
    time.sleep(0.05 * (3 - rank))
    return {"rank": rank, "numbers": list(range(300_000))}


def test_results_come_by_rank_however_large_and_each_worker_has_its_own_log(tmp_path):
    heard = []
    three = job(tell_much, tmp_path)
    three.on_message = lambda *message: heard.append(message)
    results = three.run()
    assert [result["rank"] for result in results] == [0, 1, 2]
    assert all(len(result["numbers"]) == 300_000 for result in results)
    assert sorted(heard) == [(rank, {"progress": rank}) for rank in range(3)]
    assert (tmp_path / "logs" / "rank~2.log").read_text() == "hello from 2\nand from a child\n"


class UnavailableError(Exception):
    """The error that TensorFlow raises in the peers of a worker that died."""


def fail_on_rank_1(rank, channel):
    if rank == 1:
        print("about to fail", flush=True)
        raise RuntimeError("no gradient\nsecond line")
    time.sleep(60)


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


def fail_first_on_rank_1(rank, channel):
    if rank == 1:
        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)  # nothing can be printed
    else:
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
        os.write(channel.connection.fileno(), b"\0\0\1\0half")  # of a message
        os._exit(0)
    time.sleep(60)


def use_much_memory(rank, channel):
    room = psutil.Process().memory_info().vms + (1 << 30)
    resource.setrlimit(resource.RLIMIT_AS, (room, room))
    bytearray(1 << 31)


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (fail_on_rank_1, "rank 1: RuntimeError: no gradient"),
        # It names the dead worker, not the peers that miss it.
        (be_killed_on_rank_2, "rank 2: killed by SIGKILL"),
        # It names the worker with the cause, not a peer that noticed it first.
        (partial(notice_first, error=BrokenPipeError), "rank 2: ValueError: no such layer"),
        (partial(notice_first, error=TimeoutError), "rank 2: ValueError: no such layer"),
        # Of several workers that fail on their own, it names the first.
        (fail_first_on_rank_1, "rank 1: ValueError: of itself, or for what the other did"),
        # A parameter server returns its result at once and serves until the launcher ends it.
        (die_when_done_on_rank_1, "rank 1: killed by SIGKILL"),
        (leave_on_rank_0, "rank 0: ended with exit code 0"),
        (use_much_memory, r"rank \d: out of memory: MemoryError: "),
    ],
)
def test_the_worker_that_failed_first_of_itself_is_named(tmp_path, work, reason):
    with pytest.raises(WorkerError) as raised:
        job(work, tmp_path).run()
    assert re.fullmatch(reason, raised.value.reason)
    assert raised.value.reason.startswith(f"rank {raised.value.rank}: ")
    if work is fail_on_rank_1:
        assert raised.value.log_tail[0] == "about to fail"
        assert len(raised.value.log_tail) <= 30
        assert not any(str(Path.cwd()) in line for line in raised.value.log_tail)


def test_a_worker_that_the_kernel_killed_ran_out_of_memory(tmp_path, monkeypatch):
    counted = iter([7])
    monkeypatch.setattr(memory, "kills", lambda: next(counted, 8))
    with pytest.raises(WorkerError, match=r"^rank 2: out of memory: killed by SIGKILL$"):
        job(be_killed_on_rank_2, tmp_path).run()


def refuse_on_rank_1(rank, channel, *, error):
    if rank == 1:
        time.sleep(0.3)
        raise error
    raise ConnectionResetError


@pytest.mark.parametrize(
    "error",
    [
        RefusedError("mine: cannot be cut"),
        RefusedError("no rate limit: the kernel lacks it", "sudo modprobe sch_tbf"),
    ],
)
def test_what_a_worker_refuses_is_told_as_it_is(tmp_path, error):
    with pytest.raises(type(error), match=f"^{error}$"):
        job(partial(refuse_on_rank_1, error=error), tmp_path).run()


def start_children(rank, channel, *, folder, ours, code):
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    other = subprocess.Popen(["sleep", "60"])
    (folder / "children").write_text(f"{child} {other.pid}")
    held = {link.readlink() for link in Path(f"/proc/{child}/fd").iterdir()}
    seen = "holds it" if Path(ours) in held else "holds nothing"
    if code == "raises":
        raise ValueError(seen)
    if code == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    return {"seen": seen}


@pytest.mark.parametrize("code", ["returns", "raises", "killed"])
def test_what_a_worker_starts_ends_with_it_and_holds_nothing_of_the_launcher(tmp_path, code):
    """For example a process pool in a user's model, which does not end if its parent is killed."""
    ours, other = socket.socketpair()
    name = str(Path(f"/proc/self/fd/{ours.fileno()}").readlink())
    one = job(partial(start_children, folder=tmp_path, ours=name, code=code), tmp_path, size=1)
    with ours, other:
        if code == "returns":
            assert one.run() == [{"seen": "holds nothing"}]
        else:
            with pytest.raises(WorkerError, match=r"holds nothing|SIGKILL"):
                one.run()
    children = map(int, (tmp_path / "children").read_text().split())
    wait_until(lambda: not any(map(runs, children)), 30)


def stop(rank, channel):
    os.kill(os.getpid(), signal.SIGSTOP)


def test_a_job_has_a_time_limit_even_if_a_worker_is_stopped(tmp_path):
    with pytest.raises(WorkerError, match=r"not finished within 0\.5 s"):
        job(stop, tmp_path, time_limit_s=0.5).run()


def meet_often(rank, channel, *, acted):
    time.sleep(0.2 * rank)
    blocks = int(not channel.meet("first"))
    early = not acted.exists()
    while channel.meet("timed"):
        blocks += 1
    return {"early": early, "blocks": blocks}


def test_nobody_leaves_a_meeting_before_the_launcher_has_acted_and_said_whether_to_repeat(tmp_path):
    acted, answers = tmp_path / "acted", iter([True, True, False])

    def on_meeting(name, pids):
        if name == "timed":
            return next(answers)
        time.sleep(0.2)
        acted.touch()
        assert all(map(runs, pids))
        return None

    three = job(partial(meet_often, acted=acted), tmp_path)
    three.on_meeting = on_meeting
    assert three.run() == [{"early": False, "blocks": 3}] * 3


@pytest.mark.parametrize("when", ["before it begins", "in a meeting", "that misses it"])
def test_a_worker_that_dies_while_nobody_hears_it_is_named(tmp_path, when):
    """Also if the launcher misses it in the meeting, because it needs its process."""

    def start(rank, log):
        worker = process.Job.start(three, rank, log)
        if rank == 1 and when == "before it begins":
            os.kill(worker.pid, signal.SIGKILL)
            wait_until(worker.exit_code)
        return worker

    def kill(name, pids):
        os.kill(pids[1], signal.SIGKILL)
        if when == "that misses it":
            raise ProcessLookupError

    three = job(partial(meet_often, acted=tmp_path), tmp_path)
    three.start, three.on_meeting = start, kill
    with pytest.raises(WorkerError, match="rank 1: killed by SIGKILL"):
        three.run()


LAUNCHER = """
import os, signal, subprocess, sys, time
from pathlib import Path
from nodewise.cluster import guard, process

folder, how, preload = sys.argv[1:]


def work(rank, channel):
    started = subprocess.Popen(["sleep", "120"])
    Path(folder, f"pid{rank}").write_text(f"{os.getpid()} {started.pid}")
    if how == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(120)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    process.START_WITHIN_S, guard.STOPPED_S = 5, 1
    process.Job(3, work, logs=Path(folder), time_limit_s=120, preload=preload.split()).run()
"""


@pytest.fixture
def launcher(tmp_path):
    (tmp_path / "launcher.py").write_text(LAUNCHER)

    def command(how="run", preload=""):
        words = (sys.executable, tmp_path / "launcher.py", tmp_path, how, preload)
        return [str(word) for word in words]

    return command


def everything_of(launcher, tmp_path):
    """Wait until the launcher's workers are working; return all processes below the launcher."""
    files = [tmp_path / f"pid{rank}" for rank in range(3)]
    wait_until(lambda: all(file.exists() and file.read_text() for file in files), 60)
    family = psutil.Process(launcher).children(recursive=True)
    # the workers and their child processes; the guard, the forkserver and its helper
    assert len(family) >= 3 + 3 + 3
    return family


def assert_end(family):
    wait_until(lambda: not any(runs(process.pid) for process in family), 30)


@pytest.mark.parametrize(
    ("how", "number"),
    [
        *(("run", number) for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)),
        *(("stop", number) for number in (signal.SIGKILL, signal.SIGINT)),
    ],
)
def test_workers_and_what_they_started_end_with_their_launcher(tmp_path, launcher, how, number):
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(launcher(how), stderr=subprocess.DEVNULL, env=environment) as process:
        family = everything_of(process.pid, tmp_path)
        process.send_signal(number)
        process.wait(30)
    assert_end(family)
    assert not list(tmp_path.glob("pymp-*"))


def test_workers_end_with_their_launcher_also_if_its_guard_is_killed(tmp_path, launcher):
    with subprocess.Popen(launcher(), stderr=subprocess.DEVNULL) as process:
        family = everything_of(process.pid, tmp_path)
        started = [one for one in family if one.name() == "sleep"]  # nobody is left to end these
        below = psutil.Process(process.pid).children()
        (guard,) = (one for one in below if one.cmdline() == process.args)
        guard.kill()
        process.kill()
    assert_end([one for one in family if one not in started])
    for one in started:
        one.kill()


def test_an_impatient_user_leaves_nothing_behind(tmp_path, launcher):
    with subprocess.Popen(launcher(), stderr=subprocess.DEVNULL) as process:
        family = everything_of(process.pid, tmp_path)
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(0.003)
    assert_end(family)


@pytest.mark.parametrize("importing", [False, True])
def test_the_launcher_ends_with_its_parent_also_while_it_imports(tmp_path, launcher, importing):
    """Importing TensorFlow keeps the forkserver busy for seconds."""
    began = tmp_path / "importing"
    (tmp_path / "slow_import.py").write_text(
        f"import pathlib, time\npathlib.Path({str(began)!r}).touch()\ntime.sleep(7)\n"
    )
    command = launcher(preload="slow_import" if importing else "")
    parent_code = f"import subprocess; subprocess.Popen({command}).wait()"
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", parent_code], env=environment, stderr=subprocess.DEVNULL
    ) as parent:
        wait_until(lambda: psutil.Process(parent.pid).children(), 30)
        (ours,) = psutil.Process(parent.pid).children()
        if importing:
            wait_until(began.exists, 60)
            family = ours.children(recursive=True)
        else:
            family = everything_of(ours.pid, tmp_path)
        parent.kill()
    wait_until(lambda: not runs(ours.pid), 30)
    assert_end(family)


def test_a_stopped_launcher_is_killed_with_its_workers_and_one_line_says_so(tmp_path, launcher):
    with subprocess.Popen(launcher(), stderr=subprocess.PIPE, text=True) as process:
        family = everything_of(process.pid, tmp_path)
        process.send_signal(signal.SIGSTOP)
        assert process.wait(60) == -signal.SIGKILL
        assert process.stderr.read().startswith("nodewise: stopped for half a minute")
    assert_end(family)

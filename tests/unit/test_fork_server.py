"""Commands forked from a process that imported their libraries are as if run by themselves."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

NODEWISE = Path(sys.executable).with_name("nodewise")
# A workflow: it starts the server, says where, and waits.
WORKFLOW = """
import os, sys
from nodewise import fork_server, runs

runs.take_jobs_along()
fork_server.start("report")
print(os.environ["NODEWISE_FORK_SERVER"], flush=True)
sys.stdin.readline()
"""
# The server, but its commands tell what they are instead.
STAND_IN = """
import json, os, sys, time
from nodewise import cli, fork_server

def command():
    print(json.dumps([sys.argv, os.getcwd(), os.environ.get("ASKED_BY")]), flush=True)
    print("to stderr", file=sys.stderr, flush=True)
    if sys.argv[-1] == "wait":
        time.sleep(60)
    if sys.argv[-1] == "kill":
        os.kill(os.getpid(), 9)
    if sys.argv[-1] == "raise":
        raise ValueError("a fault")
    sys.exit({"words": "words", "none": None}.get(sys.argv[-1], 3))

cli.main = command
fork_server._FIRST = fork_server._THEN = ()
fork_server.main()
"""


@pytest.fixture
def workflow():
    """The address of the server of a running workflow."""
    run = subprocess.Popen(
        [sys.executable, "-c", WORKFLOW], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    yield listening(run.stdout.readline().strip())
    run.kill()
    run.communicate(timeout=30)


@pytest.fixture
def address():
    """The address of a server whose commands are stand-ins."""
    name = f"nodewise-test-{os.getpid()}"
    server = subprocess.Popen([sys.executable, "-c", STAND_IN, name, "report"])
    yield listening(name)
    server.kill()
    server.wait(timeout=30)


def listening(name):
    """Wait until a server of this name listens; return the name."""
    for _ in range(600):
        if f"@{name}-report" in Path("/proc/net/unix").read_text():
            return name
        time.sleep(0.05)
    raise AssertionError("no server listens")


def start(address, *arguments, folder=None, **environment):
    told = {"NODEWISE_FORK_SERVER": address, "ASKED_BY": "a test"} | environment
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([NODEWISE, *arguments], cwd=folder, env=os.environ | told, **pipes)


def run(address, *arguments, folder=None, **environment):
    process = start(address, *arguments, folder=folder, **environment)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def ended(process):
    """Wait until a process is gone; tell whether it was in ten seconds."""
    for _ in range(100):
        with suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.1)
                continue
        return True
    return False


def started(server_of):
    """Return the process of the command that a stand-in of this name runs."""
    for _ in range(100):
        for process in psutil.process_iter(["cmdline"]):
            forked = process.children() if server_of in (process.info["cmdline"] or []) else []
            if forked and not forked[0].children():
                return forked[0]
        time.sleep(0.1)
    raise AssertionError("no command was forked")


def test_a_command_has_the_arguments_folder_environment_and_streams_of_who_asked(address, tmp_path):
    status, out, err = run(address, "build-tables", "--config", "x", folder=tmp_path)
    told = [["nodewise", "build-tables", "--config", "x"], str(tmp_path), "a test"]
    assert (status, json.loads(out), err) == (3, told, "to stderr\n")


@pytest.mark.parametrize(
    ("how", "status"), [("none", 0), ("words", 1), ("raise", 1), ("kill", 128 + 9)]
)
def test_the_status_is_that_of_the_command(address, how, status):
    assert run(address, "build-tables", how)[0] == status


def test_last_words_are_told_as_ever(address):
    assert run(address, "build-tables", "words")[2] == "to stderr\nwords\n"


def test_a_fault_is_told_as_ever(address):
    assert run(address, "draw-charts", "raise")[2].endswith("ValueError: a fault\n")


def test_other_commands_are_not_forked(address):
    assert run(address, "--version")[1].startswith("nodewise ")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_reaches_the_command(address, number):
    asking = start(address, "build-tables", "wait")
    asking.stdout.readline()
    asking.send_signal(number)
    assert asking.wait(timeout=10) in (128 + number, 1)  # Python itself says 1 of an interrupt
    asking.communicate()


def test_a_command_ends_if_who_asked_is_killed(address):
    asking = start(address, "build-tables", "wait")
    asking.stdout.readline()
    command = started(address)
    asking.kill()
    assert ended(command)
    asking.communicate()


def test_a_command_ends_with_the_workflow(tmp_path):
    workflow = WORKFLOW.replace('fork_server.start("report")', f"STAND_IN = {STAND_IN!r}\nSTARTED")
    workflow = workflow.replace(
        "STARTED",
        "import subprocess\n"
        "os.environ['NODEWISE_FORK_SERVER'] = name = f'nodewise-{os.getpid()}'\n"
        "subprocess.Popen([sys.executable, '-c', STAND_IN, name, 'report'])",
    )
    run = subprocess.Popen(
        [sys.executable, "-c", workflow], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    name = listening(run.stdout.readline().strip())
    asking = start(name, "build-tables", "wait")
    asking.stdout.readline()
    server, command = psutil.Process(run.pid).children()[0], started(name)
    run.kill()
    run.communicate(timeout=30)
    assert ended(server) and ended(command)
    assert asking.wait(timeout=10) != 0
    asking.communicate()
    assert f"@{name}" not in Path("/proc/net/unix").read_text()


def test_who_asks_for_nothing_disturbs_nobody(address):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
        asking.connect(f"\0{address}-report")
    assert run(address, "build-tables") == run(address, "build-tables")
    environment = {"LARGE": "x" * 120_000, "LARGER": "x" * 120_000}
    assert run(address, "build-tables", "--help", **environment)[0] == 0  # by itself


def test_without_a_server_a_command_runs_by_itself(tmp_path):
    status, out, err = run(
        "nodewise-of-nobody", "build-tables", "--config", "none.yaml", "--out", "x"
    )
    assert (status, out) == (2, "")
    assert err.startswith("nodewise: none.yaml: ")


def test_a_command_runs_by_itself_if_the_server_cannot_import():
    name = f"nodewise-broken-{os.getpid()}"
    imports = "fork_server._IMPORT['report'] = lambda: time.sleep(3) or sys.exit(1)"
    broken = STAND_IN.replace("fork_server._FIRST = fork_server._THEN = ()", imports)
    server = subprocess.Popen([sys.executable, "-c", broken, name, "report"])
    status, _, err = run(listening(name), "build-tables", "--config", "none.yaml", "--out", "x")
    assert (status, err.count("\n")) == (2, 1) and err.startswith("nodewise: none.yaml: ")
    server.wait(timeout=30)


def test_a_user_s_mistake_is_one_line_there_too(workflow, tmp_path):
    asked = "fit-overhead", "--tables", str(tmp_path), "--out", str(tmp_path / "out")
    told = run(workflow, *asked)
    assert told == run("nodewise-of-nobody", *asked)
    assert told[0] == 2 and told[2].count("\n") == 1

"""Agents of hosts, here on this machine with no command before; which devices each worker gets."""

import socket
import subprocess
import sys
import threading
import time
from multiprocessing import Pipe
from multiprocessing.connection import wait

import pytest

from mistakes import user_error
from nodewise.cluster import hosts as cluster_hosts
from nodewise.cluster.api import NO_GPU
from nodewise.cluster.hosts import HostWorker
from nodewise.cluster.kinds.slurm import Slurm
from nodewise.cluster.kinds.ssh import Ssh
from nodewise.cluster.ssh import SshHosts
from nodewise.core.errors import RefusedError
from nodewise.measure import agent, devices
from nodewise.measure.block_job import BlockJob


@pytest.fixture
def hosts():
    """Return hosts that all are this machine; their login scripts set a terminal's title."""
    named = [{"host": name, "address": "127.0.0.1"} for name in ("gpu1", "gpu2", "gpu10")]
    here = SshHosts(3, Ssh(hosts=named, python=sys.executable))
    here.prefixed = lambda rank, words: ["sh", "-c", 'printf title; exec "$@"', "sh", *words]
    with here.open():
        yield here


@pytest.fixture
def worker(hosts, tmp_path):
    """Start an agent, whose job is to train on data that are not there."""
    job = {"manifest": "of me@gpu10 on 10.1.2.3 (gpu100)", "weights": None, "time_limit_s": 60}
    started = HostWorker(hosts, 0, tmp_path / "log", job, {})
    yield started
    started.close()


def test_a_failure_is_told_at_its_time_and_names_no_host_or_person(worker):
    wait([worker.connection], 60)
    time.sleep(1)  # in which other hosts are started
    worker.begin()
    told = worker.receive()
    assert told["at"] < time.monotonic() + 0.5
    text = told["failure"]["text"]
    assert text.startswith("node1: ") and "of node3 on ADDRESS (gpu100)" in text


def test_a_port_that_is_taken_is_the_reason_of_a_refusal(hosts, worker):
    with socket.create_server(("", int(hosts.addresses()[0].split(":")[1]))):
        worker.begin()
        told = worker.receive()["failure"]
    assert told["refused"] and told["text"].startswith("node1: port ")
    assert told["text"].endswith(" is taken; cluster.ports sets others")


@pytest.mark.parametrize("said", ["", "echo Welcome! && "])
def test_a_host_that_says_nothing_of_its_agent_does_not_answer(hosts, monkeypatch, tmp_path, said):
    monkeypatch.setattr(cluster_hosts, "START_WITHIN_S", 0.5)
    hosts.prefixed = lambda rank, words: ["sh", "-c", f"{said}exec sleep 60"]
    started = HostWorker(hosts, 0, tmp_path / "log", {}, {})
    assert user_error(started.begin) == "node1: does not answer"
    started.close()


def test_connections_that_a_previous_cell_closed_take_no_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        with socket.create_connection((host, port)):
            server.accept()[0].close()
    agent._check_address([f"{host}:{port}"], 0)


def test_a_folder_and_a_file_below_home_are_found(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    settings = Ssh(hosts=["gpu1"], folder="~/my project", config="~/.ssh/other")
    *client, there = SshHosts(1, settings).prefixed(0, ["true"])
    assert "/home/me/.ssh/other" in client
    assert there == "cd 'my project' && true; exit"


SCONTROL = """\
JobId=7 ArrayJobId=7 JobState=RUNNING EndTime=2099-01-01T00:00:00 NodeList=n1
JobId=8 ArrayJobId=7 JobState=PENDING EndTime=Unknown NodeList=(null)
NodeName=n1 Arch=x86_64 NodeAddr=10.0.0.1 State=MIXED
"""


def test_a_job_that_has_the_number_of_its_array_is_not_taken_for_another(monkeypatch):
    def run(command, env, **_):
        assert env["SLURM_TIME_FORMAT"] == "standard"  # whatever the user prefers
        return subprocess.CompletedProcess(command, 0, SCONTROL)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    allocation = Slurm().take(1)
    with allocation.open():
        assert allocation.names(0) == {"n1", "10.0.0.1"}


def test_files_are_copied_before_the_time_of_a_job_begins(hosts, monkeypatch, tmp_path):
    rsync, logs = tmp_path / "rsync", tmp_path / "logs"
    rsync.write_text("#!/bin/sh\nkill -9 $$\n")
    rsync.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    job = BlockJob(hosts, 3, print, logs=logs, time_limit_s=1, most_blocks=1)
    assert user_error(job.run) == "node1: killed by SIGKILL"
    assert not logs.exists()


def test_an_agent_is_not_alone_while_other_hosts_start(monkeypatch):
    monkeypatch.setattr(agent, "SILENT_S", 0.5)
    (launcher, _far), (to_worker, of_worker), (_heard, answers) = Pipe(), Pipe(), Pipe(False)
    of_worker.send_bytes(b'{"failure": {}}')
    threading.Timer(1.5, of_worker.close).start()
    before = time.monotonic()
    agent._pass_on(0, to_worker, launcher, answers)
    assert time.monotonic() - before > 1.4


@pytest.mark.parametrize(
    ("variable", "found"),
    [
        ("0,1,2,3", ["0", "1", "2", "3"]),
        ("3, 5", ["3", "5"]),  # as Slurm assigns them to a job
        ("GPU-8932f937-d72c,MIG-11", ["GPU-8932f937-d72c", "MIG-11"]),
        ("-1", []),
        ("NoDevFiles", []),
        ("", []),
        (None, ["0", "1"]),  # the driver's GPUs are counted
    ],
)
def test_what_the_variable_names_may_be_used(monkeypatch, tmp_path, variable, found):
    monkeypatch.setattr(devices, "_NVIDIA", tmp_path)
    for address in ("0000:07:00.0", "0000:0b:00.0"):
        (tmp_path / address).mkdir()
    if variable is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    assert devices.gpus_of_host() == found


def test_each_worker_of_a_host_gets_a_gpu_of_its_own_and_too_few_are_refused():
    assert [devices.gpu_of_worker(["3", "5"], place, 2) for place in (0, 1)] == ["3", "5"]
    assert devices.gpu_of_worker([], 1, 2) == NO_GPU
    with pytest.raises(RefusedError, match=r"1 and 2; cluster\.devices_per_node: at most 1"):
        devices.gpu_of_worker(["0"], 0, 2)

"""Whatever dies on SSH hosts or in a Slurm allocation, nothing stays and one line says what it was.

Each test starts an endless cell on two hosts, kills one thing while they train, and looks at the
end. On SSH hosts, the launcher reaches both through a gateway.
"""

import os
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
import slurm_nodes
import ssh_hosts
import yaml

import projects
from traces import GONE_WITHIN_S, wait_until

pytestmark = ssh_hosts.MARKS
CELL = "--model fashion_mlp --strategy multi_worker_mirrored --nodes 2 --batch 32 --steps 900000"
# This is appended to the model file: each worker creates a file when it builds the model.
TELLING = """
import os as _os

_build = build


def build():
    open(f"built~{_os.getpid()}", "w").close()
    return _build()
"""


class Cell(NamedTuple):
    """A cell that trains on two hosts."""

    run: Any  # of `nodewise measure`, or of `salloc` with it
    launcher: psutil.Process
    folder: Path  # the project's folder on the hosts
    hosts: list[str]  # the namespaces of its hosts
    gateway: str  # the namespace of the host between it and its hosts
    slurm: Callable[..., str]  # runs a command of Slurm

    def agent(self) -> psutil.Process:
        """Return the agent on the second host."""
        pids = ssh_hosts.agents(self.folder)
        there = [one for one in ssh_hosts.processes(self.hosts[1]) if one.pid in pids]
        (agent,) = (one for one in there if one.ppid() not in pids)
        return agent

    def worker(self) -> psutil.Process:
        """Return the worker on the second host: it leads a process group, but no session."""
        children = self.agent().children()
        groups = (one for one in children if os.getpgid(one.pid) == one.pid)
        (worker,) = (one for one in groups if os.getsid(one.pid) != one.pid)
        return worker

    def client(self) -> psutil.Process:
        """Return the launcher's process that connects it to the second host."""
        second = {"three", "--nodelist=node2"}
        (client,) = (one for one in self.launcher.children() if second & set(one.cmdline()))
        return client

    def sessions(self, host: str) -> list[psutil.Process]:
        """Return the processes of SSH on a host that each serve one connection."""
        there = ssh_hosts.processes(host)
        return [one for one in there if one.cmdline()[0].startswith("sshd: root")]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    project = projects.copy(tmp_path_factory.mktemp("here") / "project")
    model = project / "models/fashion_mlp.py"
    model.write_text(model.read_text() + TELLING)
    return project


@pytest.fixture(scope="module")
def ssh(tmp_path_factory, project):
    """Return a function that starts a cell on the second and the third of three hosts."""
    folder = tmp_path_factory.mktemp("ssh")
    with ssh_hosts.daemons(folder) as (client, namespaces):
        there = {"folder": f"{folder}/there", "config": str(client), "python": sys.executable}
        settings = there | {"kind": "ssh", "hosts": ["two", "three"]}

        def start() -> Cell:
            run = begin(project, Path(there["folder"]), settings)
            launcher = psutil.Process(run.pid)
            return Cell(run, launcher, folder / "there", namespaces[1:], namespaces[0], str)

        yield start


@pytest.fixture(scope="module")
def slurm(tmp_path_factory, project):
    """Return a function that starts a cell in an allocation of two nodes."""
    with slurm_nodes.cluster(tmp_path_factory.mktemp("slurm"), 2) as inside:
        namespaces = [f"{ssh_hosts.prefix('sl')}{number}" for number in (1, 2)]
        settings = {"kind": "slurm", "python": sys.executable, "ports": [31000, 31999]}

        def said(*command: str) -> str:
            return slurm_nodes.said(inside, *command)

        def start() -> Cell:
            run = begin(project, project, settings, *inside("salloc", "-Q", "-N2", at=project))
            (launcher,) = psutil.Process(run.pid).children()
            return Cell(run, launcher, project, namespaces, "", said)

        yield start


def begin(project: Path, there: Path, cluster: dict, *prefix: str):
    """Start a cell; return its process when both workers have built their model."""
    for file in there.glob("built~*"):
        file.unlink()
    (project / "cell.json").unlink(missing_ok=True)
    settings = yaml.safe_dump(cluster, default_flow_style=True, width=9999).strip()
    words = (*CELL.split(), "--out", "cell.json", "--cluster", settings)
    run = projects.start(project, *prefix, "nodewise", "measure", *words)
    wait_until(lambda: len(list(there.glob("built~*"))) == 2, 200, run)
    time.sleep(1)
    return run


def down(cell: Cell) -> None:
    cell.slurm("scontrol", "update", "NodeName=node2", "State=DOWN", "Reason=a test")


LOST, SILENT = "failed: rank 1: node2: the connection was lost", "node2: does not answer"
KILLED, ENDED = f"{LOST} (killed by SIGKILL)", "nodewise: the Slurm job "
SSH = {
    "worker": (lambda cell: cell.worker().kill(), "failed: rank 1: node2: killed by SIGKILL"),
    "agent": (lambda cell: cell.agent().kill(), KILLED),
    "connection on the host": (lambda cell: cell.sessions(cell.hosts[1])[0].kill(), LOST),
    "connection here": (lambda cell: cell.client().kill(), KILLED),
    "launcher": (lambda cell: cell.run.kill(), ""),
    "network": (lambda cell: ssh_hosts.cut(cell.hosts[1]), SILENT),
    "network of the gateway": (lambda cell: ssh_hosts.cut(cell.gateway, "g"), "does not answer"),
    "gateway": (lambda cell: ssh_hosts.kill_all(cell.gateway), "the connection was lost"),
}
SLURM = {
    "slurmstepd": (lambda cell: cell.agent().parent().kill(), SILENT),
    "srun": (lambda cell: cell.client().kill(), KILLED),
    "network": (lambda cell: ssh_hosts.cut(cell.hosts[1]), SILENT),
    "salloc": (lambda cell: cell.run.kill(), "nodewise: terminated"),
    "job": (lambda cell: cell.slurm("scancel", "--user=root"), ENDED),
    "allocation": (down, ENDED),
}


def check(cell: Cell, kill: Callable, line: str) -> None:
    """Kill something; check that the command says what happened and that nothing stays."""
    with kill(cell) or nullcontext():
        said = cell.run.communicate(timeout=GONE_WITHIN_S)[0].splitlines()
        told = [text for text in said if text.startswith(("single_run_", "nodewise: "))]
        assert len(told) == bool(line) and all(line in text for text in told), said
        wait_until(lambda: not ssh_hosts.agents(cell.folder), GONE_WITHIN_S)
        assert not cell.launcher.is_running()


@pytest.mark.parametrize("kind", SSH)
def test_what_dies_on_ssh_hosts_leaves_nothing_and_is_named(ssh, kind):
    check(ssh(), *SSH[kind])


@pytest.mark.parametrize("kind", SLURM)
def test_what_dies_in_an_allocation_leaves_nothing_and_is_named(slurm, kind):
    cell = slurm()
    check(cell, *SLURM[kind])
    cell.slurm("scancel", "--user=root")
    wait_until(lambda: not cell.slurm("squeue", "-h"), GONE_WITHIN_S)

"""A Slurm cluster for tests: real daemons, each node in its own network namespace."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which

import pytest
import ssh_hosts

from traces import wait_until

NET = "10.211.8"

_CONF = """
ClusterName=test
SlurmctldHost=node1({NET}.2)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmdSpoolDir={folder}/%n
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
InactiveLimit=0
KillWait=2
MinJobAge=300
SlurmdParameters=config_overrides
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
# Each node has its own host name, Slurm configuration and /run.
_NODE = """
hostname "$1" && mount --bind "$2/hosts" /etc/hosts && mount --bind "$2/etc" /etc/slurm &&
mount -t tmpfs tmpfs /run && exec slurmd -D -N "$1"
"""

Inside = Callable[..., list[str]]


@contextmanager
def cluster(folder: Path, size: int) -> Iterator[Inside]:
    """Start a cluster of nodes node1, node2, …; yield a function that wraps commands.

    `inside("squeue", at=folder)` returns the command that runs squeue in the first node, in that
    folder. Without Slurm, the test is skipped; in continuous integration that is an error.
    """
    if which("slurmctld") is None and "CI" not in os.environ:
        pytest.skip("Slurm is not installed")
    with ssh_hosts.network(size, ssh_hosts.prefix("sl"), NET) as namespaces:
        names = [f"node{number}" for number, _ in enumerate(namespaces, 1)]
        _configure(folder, names)
        started: list[subprocess.Popen[bytes]] = []

        def start(*command: str) -> int:
            started.append(ssh_hosts.start(folder / "daemons.log", *command))
            return started[-1].pid

        try:
            files = [f"--{one}-file={folder}/munge/{one}" for one in ("key", "pid", "log", "seed")]
            start("munged", "--foreground", "--force", *files, f"--socket={folder}/munge/socket")
            pids = []
            for name, namespace in zip(names, namespaces, strict=True):
                enter = ("nsenter", f"--net=/var/run/netns/{namespace}", "unshare", "-m", "-u")
                pids.append(start(*enter, "sh", "-c", _NODE, "sh", name, str(folder)))

            def inside(*command: str, at: Path = folder) -> list[str]:
                return ["nsenter", f"--target={pids[0]}", "-m", "-u", "-n", f"--wd={at}", *command]

            wait_until(lambda: Path(f"/proc/{pids[0]}/comm").read_text() == "slurmd\n")
            start(*inside("slurmctld", "-D"))
            wait_until(lambda: said(inside, "sinfo", "-h", "-o", "%D %t") == f"{len(names)} idle\n")
            yield inside
            said(inside, "scancel", "--user=root")
            wait_until(lambda: said(inside, "squeue", "-h") == "")
        finally:
            for daemon in reversed(started):
                daemon.kill()
                daemon.wait()


def said(inside: Inside, *command: str) -> str:
    """Return what a command prints on stdout in the first node."""
    return subprocess.run(inside(*command), capture_output=True, text=True, check=False).stdout


def _configure(folder: Path, names: list[str]) -> None:
    for name in ("etc", "state", "munge", *names):
        (folder / name).mkdir()
    (folder / "munge/key").write_bytes(os.urandom(128))
    (folder / "munge/key").chmod(0o600)
    addresses = {name: f"{NET}.{number}" for number, name in enumerate(names, 2)}
    # Only the controller's name can be looked up: the others are known to Slurm alone.
    (folder / "hosts").write_text(f"127.0.0.1 localhost\n{addresses[names[0]]} {names[0]}\n")
    nodes = [f"NodeName={name} NodeAddr={at} CPUs=4" for name, at in addresses.items()]
    settings = _CONF.format(NET=NET, folder=folder, nodes="\n".join(nodes))
    (folder / "etc/slurm.conf").write_text(settings)

"""Nodes that are other hosts, each with one worker, reached by the OpenSSH client.

On this machine a process stands in for each worker. It copies the project to its host, starts
`nodewise.measure.agent` there, and passes messages on in both directions. The agent ends the worker
when this process ends or falls silent, whatever the cause.
"""

import os
import platform
import random
import shlex
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import IO, NamedTuple, NoReturn

from filelock import FileLock

from nodewise.cluster import api
from nodewise.cluster.channel import Channel, Message, receive, send
from nodewise.cluster.kinds.ssh import Ssh
from nodewise.core.errors import RefusedError

GREETING = b"nodewise agent\n"
"""What the agent writes first. What a login script prints before is not for us."""

HEARTBEAT_S = 2.0
SILENT_S = 15.0
_COMPARED = ("tensorflow", "keras", "numpy")
_PROJECT = (  # what a worker needs, and `make setup`
    *("workflow", "models", "data/models", "data/datasets.yaml", "data/weights.yaml"),
    *("Makefile", "pyproject.toml", "requirements.lock", "README.md", "LICENSE"),
)
_OPTIONS = (
    *("-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"),
    *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"),
)
_NO_COMMAND = (126, 127)  # exit codes of a shell that cannot run a program
_SSH_FAILED = 255
_LOCK = Path("results/copying.lock")
_STARTS_ITS_OWN = ("mpi", "horovod")  # their launchers start processes on one machine
_LEAST_DISK = 2e9
_CLOCK_WITHIN_S = 2.0  # records of two hosts are compared by their times


class Finding(NamedTuple):
    """What is to say of a host, in one line; `sound` if it is no reason against the host."""

    text: str
    sound: bool = False


def examine_hosts(settings: Ssh) -> list[Finding]:
    """Examine all hosts side by side; return what was found, in the order of hosts."""
    hosts = SshHosts(len(settings.hosts), settings)
    with hosts.open(), ThreadPoolExecutor(len(settings.hosts)) as pool:
        found = pool.map(lambda rank: list(hosts.examine(rank)), range(len(settings.hosts)))
        return [finding for findings in found for finding in findings]


class HostError(Exception):
    """A host did not do its part: the text names it by its label."""


def versions() -> dict[str, str]:
    """Return the versions that must be the same on all hosts."""
    found = {"Python": platform.python_version()}
    for package in _COMPARED:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


class SshHosts(api.Cluster):
    """The first `size` hosts of the settings."""

    kind = "measured"
    network = "the hosts' own network"
    cpu_limit = "none: a node is a whole host"
    remote = True

    def __init__(self, size: int, settings: Ssh) -> None:
        self._size, self._settings = size, settings

    @contextmanager
    def open(self) -> Iterator[None]:
        hosts = self._settings.hosts
        if self._size > len(hosts):
            raise api.NotPermittedError(f"{self._size} nodes need as many hosts, not {len(hosts)}")
        if not all(host.host for host in hosts[: self._size]):
            raise api.NotPermittedError("the settings name no hosts: records leave them out")
        first, last = self._settings.ports
        # those of the cell before may still be in use
        start = random.randint(first, last - self._size + 1)  # noqa: S311
        self._ports = range(start, start + self._size)
        self._hosts = [self._address(rank) for rank in range(self._size)]
        yield

    def addresses(self) -> list[str]:
        return [f"{host}:{port}" for host, port in zip(self._hosts, self._ports, strict=True)]

    def relay(
        self,
        rank: int,
        channel: Channel,
        job: Message,
        *,
        files: Sequence[Path],
        environment: Mapping[str, str],
    ) -> Message:
        if job["cell"]["strategy"] in _STARTS_ITS_OWN:
            raise RefusedError(f"{job['cell']['strategy']} cannot be measured on SSH hosts yet")
        self._copy(rank, files)
        agent = self._start(rank, environment, show=True)
        differences = _differences(agent.hello)
        if differences:
            raise RefusedError(f"{self._label(rank)}: {differences[0]}")
        send(agent.to, job | {"rank": rank, "addresses": self.addresses()})
        try:
            self._pass_on(rank, channel, agent)
        except (EOFError, ConnectionError):
            raise HostError(f"{self._label(rank)}: {agent.end()}") from None

    def examine(self, rank: int) -> Iterator[Finding]:
        """Copy the project to a host and yield what is wrong there; first, what it has."""
        try:
            self._copy(rank, [])
            asked_at = time.time()
            agent = self._start(rank, {}, show=False)
            late_s = agent.hello["time"] - (asked_at + time.time()) / 2
        except (RefusedError, api.NotPermittedError) as error:
            command = getattr(error, "command", "")
            yield Finding(f"{error}{command and f'; to repair it, there: {command}'}")
            return
        facts = agent.hello
        yield Finding(
            f"{self._label(rank)}: {facts['cores']} cores, {facts['load']:.1f} of them busy; "
            f"{facts['memory_bytes'] / 1e9:.1f} GB of memory free, "
            f"{facts['disk_bytes'] / 1e9:.1f} GB of disk",
            sound=True,
        )
        setup = f"cd {shlex.quote(self._settings.folder)} && make setup"
        for difference in _differences(facts):
            yield Finding(f"{self._label(rank)}: {difference}; to repair it, there: {setup}")
        if facts["disk_bytes"] < _LEAST_DISK:
            yield Finding(f"{self._label(rank)}: its disk is nearly full")
        if abs(late_s) > _CLOCK_WITHIN_S:
            late = f"its clock is {late_s:+.0f} s off; start a time service"
            yield Finding(f"{self._label(rank)}: {late}")
        agent.to.close()
        agent.there.close()
        agent.process.kill()
        agent.process.wait()

    def _start(self, rank: int, environment: Mapping[str, str], *, show: bool) -> "_Agent":
        """Start the agent on a host; `show` what it prints.

        Raises:
            RefusedError, NotPermittedError: that is not possible.
        """
        process = subprocess.Popen(
            self._ssh(rank, self._command(environment)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        assert process.stdin and process.stdout and process.stderr  # noqa: S101
        said: list[str] = []
        log = threading.Thread(target=self._log, args=(process.stderr, said, show), daemon=True)
        log.start()
        if not any(line == GREETING for line in process.stdout):
            log.join(1)
            self._not_started(rank, process.wait(), said)
        there = Connection(os.dup(process.stdout.fileno()), writable=False)
        to = Connection(os.dup(process.stdin.fileno()), readable=False)
        return _Agent(process, there, to, receive(there), said, log)

    def _pass_on(self, rank: int, channel: Channel, agent: "_Agent") -> NoReturn:
        """Pass messages on until the host ends; this process is killed when all are done."""
        there, to = agent.there, agent.to
        offset_s = time.monotonic() - agent.hello["now"]  # between the monotonic clocks
        beat_at, failed = 0.0, False
        while True:
            ready = wait([there, channel.fileno()], HEARTBEAT_S)
            if there in ready:
                try:
                    message = receive(there)
                except EOFError:
                    if failed:  # which is known already
                        os._exit(1)
                    raise
                if "at" in message:
                    message["at"] += offset_s
                if "failure" in message:
                    failed = True
                    message["failure"]["text"] = (
                        f"{self._label(rank)}: {message['failure']['text']}"
                    )
                channel.send(message)
            if channel.fileno() in ready:
                send(to, channel.wait())
            if time.monotonic() - beat_at > HEARTBEAT_S / 2:
                beat_at = time.monotonic()
                send(to, {"heartbeat": True})

    def _label(self, rank: int) -> str:
        return self._settings.hosts[rank].label

    def _ssh(self, rank: int, command: str) -> list[str]:
        return [*self._client(), "--", self._settings.hosts[rank].host, command]

    def _client(self) -> list[str]:
        config = self._settings.config
        return ["ssh", *(("-F", str(config)) if config else ()), *_OPTIONS]

    def _command(self, environment: Mapping[str, str]) -> str:
        """Return the command line for the shell of a host. Nothing in it is a host's name."""
        variables = {"PYTHONPATH": "workflow", **environment}
        words = [f"{name}={value}" for name, value in variables.items()]
        words += [self._settings.python, "-m", "nodewise.measure.agent"]
        return f"cd {shlex.quote(self._settings.folder)} && exec env {shlex.join(words)}"

    def _address(self, rank: int) -> str:
        """Return what the other hosts reach a host by.

        Raises:
            NotPermittedError: there is no OpenSSH client.
        """
        host = self._settings.hosts[rank]
        if host.address:
            return host.address
        command = [*self._client(), "-G", "--", host.host]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise api.NotPermittedError(
                "ssh cannot be used here", "apt-get install openssh-client rsync"
            ) from error
        lines = (line.partition(" ") for line in done.stdout.splitlines())
        return next(value for key, _, value in lines if key == "hostname")

    def _copy(self, rank: int, files: Sequence[Path]) -> None:
        """Copy the project's code and `files` to the host of `rank`.

        Raises:
            RefusedError, NotPermittedError: that is not possible.
        """
        sent = [name for name in (*_PROJECT, *map(str, files)) if Path(name).exists()]
        outside = [name for name in sent if Path(name).is_absolute() or ".." in Path(name).parts]
        if outside:
            raise RefusedError(f"{Path(outside[0]).name}: only files of the project are copied")
        command = ["rsync", "-aRz", "--secluded-args", "--exclude=__pycache__"]
        host, folder = self._settings.hosts[rank].host, self._settings.folder
        command += ["-e", shlex.join(self._client()), "--", *sent, f"{host}:{folder}/"]
        try:
            _LOCK.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(_LOCK):  # hosts may share the folder
                done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise api.NotPermittedError("there is no rsync", "apt-get install rsync") from None
        if done.returncode:
            said = [self._without_names(line) for line in done.stderr.splitlines()]
            self._not_started(rank, done.returncode, [line for line in said if line])

    def _not_started(self, rank: int, code: int, said: list[str]) -> NoReturn:
        label, folder = self._label(rank), self._settings.folder
        reason = next((line for line in said if not line.startswith("@@@")), f"exit code {code}")
        if any("HOST IDENTIFICATION HAS CHANGED" in line for line in said):
            reason = "its host key has changed"
        if code in _NO_COMMAND and "rsync" in reason:
            raise api.NotPermittedError(f"{label}: has no rsync", "apt-get install rsync")
        if code in _NO_COMMAND:
            setup = f"cd {shlex.quote(folder)} && make setup"
            raise api.NotPermittedError(f"{label}: has no {self._settings.python}", setup)
        raise RefusedError(f"{label}: {reason}")

    def _log(self, errors: IO[bytes], said: list[str], show: bool) -> None:
        """Collect what comes from a host, without its name."""
        for line in errors:
            text = self._without_names(line.decode(errors="replace").rstrip())
            said.append(text)
            if show:
                print(text, flush=True)

    def _without_names(self, text: str) -> str:
        for rank, host in enumerate(self._settings.hosts):
            addresses = self._hosts[rank : rank + 1]
            for name in {host.host, host.host.rpartition("@")[2], host.address, *addresses} - {""}:
                text = text.replace(name, self._label(rank))
        return text


@dataclass
class _Agent:
    """The agent on a host: the client, the connections from and to it, and what it said first."""

    process: "subprocess.Popen[bytes]"
    there: Connection
    to: Connection
    hello: Message
    said: list[str]
    log: threading.Thread

    def end(self) -> str:
        """Say how the connection was lost."""
        code = self.process.wait()
        self.log.join(1)
        last = f"{self.said[-1]}" if self.said and code == _SSH_FAILED else f"exit code {code}"
        return f"the connection was lost ({last})"


def _differences(hello: Message) -> list[str]:
    """Return in which versions a host differs from this one."""
    theirs = hello["versions"]
    return [
        f"has {name} {theirs.get(name, 'missing')}, here is {ours}"
        for name, ours in versions().items()
        if theirs.get(name) != ours
    ]


class OneHost(api.Cluster):
    """The cluster as a worker on one of its hosts sees it."""

    kind = "measured"

    def __init__(self, addresses: list[str]) -> None:
        self._addresses = addresses

    @contextmanager
    def open(self) -> Iterator[None]:
        yield

    def addresses(self) -> list[str]:
        return self._addresses

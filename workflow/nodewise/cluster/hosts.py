"""Clusters whose nodes are other hosts.

The launcher starts `nodewise.measure.agent` on the host of each worker and talks to it by its
standard streams. Kinds of cluster differ in the command before it: `ssh HOST …` or `srun … …`. The
agent starts the worker, and ends it when the launcher ends or falls silent, whatever the cause.
"""

import os
import platform
import random
import re
import subprocess
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Connection, wait
from pathlib import Path

from nodewise.cluster import api
from nodewise.cluster.channel import Message, receive, send
from nodewise.cluster.host_settings import HostSettings
from nodewise.cluster.process import START_WITHIN_S
from nodewise.cluster.worker_state import Worker
from nodewise.core.errors import RefusedError

GREETING = b"nodewise agent\n"
"""First line that the agent writes. Output before it comes from login scripts and is ignored."""

SILENT_S = 15.0
_HEARTBEAT_S = 1.0
_SILENT = 255  # stands for the exit code of a client that still runs
_NO_COMMAND = (126, 127)  # exit codes of a shell that cannot run a program
_COMPARED = ("tensorflow", "keras", "numpy")
_ADDRESS = r"(?!127\.)\d+\.\d+\.\d+\.\d+"  # that of another host; one's own is 127.0.0.1


def versions() -> dict[str, str]:
    """Return the versions that must be the same on all hosts; Python's as major.minor."""
    found = {"Python": ".".join(platform.python_version_tuple()[:2])}
    for package in _COMPARED:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


class Hosts(api.Cluster):
    """Hosts on which this machine can start a program and talk to it by its standard streams."""

    kind = "measured"
    network = "the hosts' own network"
    cpu_limit = "none: a node is a whole host"
    remote = True

    setup: str  # command that creates the environment on a host, with this machine's versions
    _hosts: list[str]  # name or address of the host of each rank, set by `open`

    def __init__(self, size: int, settings: HostSettings) -> None:
        """Describe a cluster of `size` workers. They get consecutive ports from a random one on.

        Raises:
            RefusedError: the settings allow fewer ports.
        """
        self.size, self.python, self.per_host = size, settings.python, settings.devices_per_node
        first, last = settings.ports
        if last - first + 1 < size:
            raise RefusedError(f"cluster.ports: {first} to {last} are fewer than {size} ports")
        # ports of the previous cell may still be in use
        self._first_port = random.randint(first, last - size + 1)  # noqa: S311

    def addresses(self) -> list[str]:
        return [f"{host}:{port}" for port, host in enumerate(self._hosts, self._first_port)]

    @abstractmethod
    def label(self, rank: int) -> str:
        """Return the name of the host of `rank` in records and messages."""

    @abstractmethod
    def names(self, rank: int) -> set[str]:
        """Return the names and addresses of the host of `rank`, which records must not show."""

    @abstractmethod
    def prefixed(self, rank: int, words: Sequence[str]) -> list[str]:
        """Return the local command that runs the command `words` on the host of `rank`."""

    @abstractmethod
    def end_of(self, code: int, output: list[str]) -> str:
        """Return why the local command ended with exit code `code` and the lines `output`."""

    def prepare(self, rank: int, files: Sequence[Path]) -> None:
        """Make the project's code and `files` available on the host of `rank`.

        Raises:
            RefusedError: this is not possible.
        """

    def without_names(self, text: str) -> str:
        """Replace the names of hosts in `text` by their labels, and leave out users there."""
        ranks = reversed(range(self.size))
        labels = {name: self.label(rank) for rank in ranks for name in self.names(rank)}
        names = "|".join(map(re.escape, sorted(labels, key=len, reverse=True)))
        place = rf"(?:[\w.-]+@|(?<!\w))({names}|{_ADDRESS})(?!\w)"
        return re.sub(place, lambda found: labels.get(found[1], "ADDRESS"), text)


class HostWorker(Worker):
    """A worker on another host. Its local process is the client that started its agent."""

    def __init__(
        self, hosts: Hosts, rank: int, log: Path, job: Message, environment: Mapping[str, str]
    ) -> None:
        """Start the agent, which waits for `begin`, on a host that has been prepared.

        Args:
            hosts: the cluster.
            rank: rank of the worker.
            log: file for its output.
            job: what its agent is to do, as JSON.
            environment: its environment variables.
        """
        place = {"place": rank % hosts.per_host, "workers_here": hosts.per_host}
        self._hosts, self._job = hosts, job | place | {"rank": rank}
        variables = [f"{k}={v}" for k, v in {"PYTHONPATH": "workflow", **environment}.items()]
        agent = ["env", *variables, hosts.python, "-m", "nodewise.measure.agent"]
        with log.open("wb") as errors:
            self._client = subprocess.Popen(
                hosts.prefixed(rank, agent),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
                process_group=0,
            )
        assert self._client.stdin and self._client.stdout  # noqa: S101
        there = Connection(os.dup(self._client.stdout.fileno()), writable=False)
        self._to = Connection(os.dup(self._client.stdin.fileno()), readable=False)
        self._client.stdin.close()
        super().__init__(rank, there, log)
        self.pid, self._ahead_s = self._client.pid, 0.0
        self._beat_at = self._heard_at = 0.0

    def hello(self) -> Message:
        """Wait for the first message of the agent and return it.

        Raises:
            RefusedError: the agent could not be started.
        """
        stdout, label = self._client.stdout, self._hosts.label(self.rank)
        assert stdout  # noqa: S101
        deadline, line = time.monotonic() + START_WITHIN_S, b""
        while not line.endswith(GREETING):
            if not wait([stdout.fileno()], deadline - time.monotonic()):
                raise RefusedError(f"{label}: does not answer")
            if line := stdout.readline():
                continue
            code = self._client.wait()
            reason = self._hosts.end_of(code, self.log_tail)
            if code in _NO_COMMAND:
                reason = f"has no {self._hosts.python}; run there: {self._hosts.setup}"
            raise RefusedError(f"{label}: {reason}")
        return receive(self.connection)

    def begin(self) -> None:
        """Have the agent start its job.

        Raises:
            RefusedError: the agent could not be started, or the host has other
                versions than this machine.
        """
        for difference in differences(self.hello()):
            raise RefusedError(f"{self._hosts.label(self.rank)}: {difference}")
        self.send(self._job | {"addresses": self._hosts.addresses()})
        self._ahead_s = receive(self.connection)["now"] - time.monotonic()

    def send(self, message: Message) -> None:
        send(self._to, message)

    def receive(self) -> Message:
        message = receive(self.connection)
        self._heard_at = time.monotonic()
        if "at" in message:
            message["at"] -= self._ahead_s
        if "failure" in message:
            text = self._hosts.without_names(message["failure"]["text"])
            message["failure"]["text"] = f"{self._hosts.label(self.rank)}: {text}"
        return message

    def beat(self) -> None:
        if time.monotonic() - self._beat_at > _HEARTBEAT_S:
            self._beat_at = time.monotonic()
            self._heard_at = self._heard_at or self._beat_at  # the agent answers each heartbeat
            with suppress(BrokenPipeError):
                self.send({"heartbeat": True})

    def exit_code(self) -> int | None:
        return _SILENT if self.silent_s > SILENT_S else self._client.poll()

    @property
    def silent_s(self) -> float:  # type: ignore[override]
        return time.monotonic() - self._heard_at if self._heard_at else 0.0

    def end_of(self) -> str:
        code, label = self._client.poll(), self._hosts.label(self.rank)
        if code is None:
            return f"{label}: does not answer"
        return f"{label}: the connection was lost ({self._hosts.end_of(code, self.log_tail)})"

    def close(self) -> None:
        self._client.kill()
        self._client.wait()
        assert self._client.stdout  # noqa: S101
        for end in (self.connection, self._to, self._client.stdout):
            end.close()

    @property
    def log_tail(self) -> list[str]:
        return [self._hosts.without_names(line) for line in super().log_tail]


def differences(hello: Message) -> list[str]:
    """Return one text for each version in which a host differs from this machine."""
    theirs = hello["versions"]
    return [
        f"has {name} {theirs.get(name, 'missing')}, here is {ours}"
        for name, ours in versions().items()
        if theirs.get(name) != ours
    ]


class OneHost(api.Cluster):
    """A cluster of hosts, as seen by a worker on one of them."""

    kind = "measured"

    def __init__(self, addresses: list[str], *, gpus: str, threads: int) -> None:
        self._addresses, self.gpus, self.threads = addresses, gpus, threads

    @contextmanager
    def open(self) -> Iterator[None]:
        yield

    def addresses(self) -> list[str]:
        return self._addresses

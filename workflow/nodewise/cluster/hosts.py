"""Clusters whose nodes are other hosts.

Each worker is represented by a process on this machine. It starts `nodewise.measure.agent` on the
worker's host and forwards messages in both directions. The agent ends the worker when that process
ends or falls silent, whatever the cause.
"""

import os
import platform
import random
import subprocess
import threading
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import IO, NoReturn

from nodewise.cluster import api
from nodewise.cluster.channel import Channel, Message, receive, send
from nodewise.core.errors import RefusedError

GREETING = b"nodewise agent\n"
"""First line that the agent writes. Output before it comes from login scripts and is ignored."""

HEARTBEAT_S = 2.0
SILENT_S = 15.0
NO_COMMAND = (126, 127)  # exit codes of a shell that cannot run a program
_COMPARED = ("tensorflow", "keras", "numpy")


class HostError(Exception):
    """A host failed or was lost; the message names it by its label."""


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

    setup: str  # command that creates the environment on a host
    renew: str  # command that creates it again, with the versions of this machine
    _hosts: list[str]  # name or address of the host of each rank, set by `open`

    def __init__(self, size: int, allowed_ports: Sequence[int], per_host: int = 1) -> None:
        """Describe a cluster of `size` workers, `per_host` on each host.

        `allowed_ports` are the first and the last port that may be used. The workers get
        consecutive ports within this range, from a random one on.
        """
        self.size, self.allowed_ports, self.per_host = size, allowed_ports, per_host
        first, last = allowed_ports
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
    def prepare(self, rank: int, files: Sequence[Path]) -> None:
        """Make the project's code and `files` available on the host of `rank`.

        Raises:
            RefusedError, NotPermittedError: this is not possible.
        """

    @abstractmethod
    def command(self, rank: int, environment: Mapping[str, str]) -> list[str]:
        """Return the local command that runs the agent on the host of `rank`."""

    @abstractmethod
    def not_started(self, rank: int, code: int, output: list[str]) -> NoReturn:
        """Raise an error that says why the agent did not start.

        Args:
            rank: rank of the worker.
            code: exit code of `command`.
            output: lines that `command` printed.

        Raises:
            RefusedError, NotPermittedError: always.
        """

    @abstractmethod
    def end_of(self, code: int, output: list[str]) -> str:
        """Return why `command` ended with exit code `code` while the worker was running."""

    def relay(
        self,
        rank: int,
        channel: Channel,
        job: Message,
        *,
        files: Sequence[Path],
        environment: Mapping[str, str],
    ) -> Message:
        self.prepare(rank, files)
        agent = self.start_agent(rank, environment, show=True)
        for difference in differences(agent.hello):
            raise RefusedError(f"{self.label(rank)}: {difference}")
        place = {"place": rank % self.per_host, "workers_here": self.per_host}
        send(agent.to, job | place | {"rank": rank, "addresses": self.addresses()})
        try:
            self._pass_on(rank, channel, agent)
        except (EOFError, ConnectionError):
            code = agent.process.wait()
            agent.log.join(1)
            why = self.end_of(code, agent.output)
            raise HostError(f"{self.label(rank)}: the connection was lost ({why})") from None

    def start_agent(self, rank: int, environment: Mapping[str, str], *, show: bool) -> "Agent":
        """Start the agent on the host of `rank`. With `show`, print its output.

        Raises:
            RefusedError, NotPermittedError: the agent cannot be started.
        """
        asked_at = time.time()
        process = subprocess.Popen(
            self.command(rank, environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        assert process.stdin and process.stdout and process.stderr  # noqa: S101
        output: list[str] = []
        log = threading.Thread(target=self._log, args=(process.stderr, output, show), daemon=True)
        log.start()
        if not any(line == GREETING for line in process.stdout):
            log.join(1)
            self.not_started(rank, process.wait(), output)
        there = Connection(os.dup(process.stdout.fileno()), writable=False)
        to = Connection(os.dup(process.stdin.fileno()), readable=False)
        hello = receive(there)
        late_s = hello["time"] - (asked_at + time.time()) / 2
        return Agent(process, there, to, hello, late_s, output, log)

    def _pass_on(self, rank: int, channel: Channel, agent: "Agent") -> NoReturn:
        """Forward messages in both directions until this process is killed or the host is lost.

        Raises:
            EOFError, ConnectionError: the connection to the host was lost.
        """
        there, to = agent.there, agent.to
        offset_s = time.monotonic() - agent.hello["now"]  # of the two monotonic clocks
        beat_at, failed = 0.0, False
        while True:
            ready = wait([there, channel.fileno()], HEARTBEAT_S)
            if there in ready:
                try:
                    message = receive(there)
                except EOFError:
                    if failed:  # the launcher knows the failure already
                        os._exit(1)
                    raise
                if "at" in message:
                    message["at"] += offset_s
                if "failure" in message:
                    failed = True
                    message["failure"]["text"] = f"{self.label(rank)}: {message['failure']['text']}"
                channel.send(message)
            if channel.fileno() in ready:
                send(to, channel.wait())
            if time.monotonic() - beat_at > HEARTBEAT_S / 2:
                beat_at = time.monotonic()
                send(to, {"heartbeat": True})

    def _log(self, errors: IO[bytes], output: list[str], show: bool) -> None:
        """Collect the lines that a host prints, with its names replaced by its label."""
        for line in errors:
            text = self.without_names(line.decode(errors="replace").rstrip())
            output.append(text)
            if show:
                print(text, flush=True)

    def without_names(self, text: str) -> str:
        """Replace the names of each host in `text` by its label."""
        for rank in range(self.size):
            for name in sorted(self.names(rank), key=len, reverse=True):
                text = text.replace(name, self.label(rank))
        return text


@dataclass
class Agent:
    """A running agent on a host.

    Args:
        process: local process that started the agent, such as the SSH client.
        there: connection for messages from the agent.
        to: connection for messages to the agent.
        hello: first message of the agent.
        late_s: seconds by which the host's clock is ahead of this machine's.
        output: lines that the agent has printed.
        log: thread that collects these lines.
    """

    process: "subprocess.Popen[bytes]"
    there: Connection
    to: Connection
    hello: Message
    late_s: float
    output: list[str]
    log: threading.Thread

    def end(self) -> None:
        """Close the connections and end the agent."""
        self.to.close()
        self.there.close()
        self.process.kill()
        self.process.wait()


def agent_words(python: str, environment: Mapping[str, str]) -> list[str]:
    """Return the command, as words, that runs the agent in the project's folder on a host."""
    variables = {"PYTHONPATH": "workflow", **environment}
    assignments = [f"{name}={value}" for name, value in variables.items()]
    return ["env", *assignments, python, "-m", "nodewise.measure.agent"]


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

"""Nodes that are other hosts.

On this machine a process stands in for each worker. It starts `nodewise.measure.agent` on its host,
and passes messages on in both directions. The agent ends the worker when this process ends or falls
silent, whatever the cause.
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
"""What the agent writes first. What a login script prints before is not for us."""

HEARTBEAT_S = 2.0
SILENT_S = 15.0
NO_COMMAND = (126, 127)  # exit codes of a shell that cannot run a program
_COMPARED = ("tensorflow", "keras", "numpy")


class HostError(Exception):
    """A host did not do its part: the text names it by its label."""


def versions() -> dict[str, str]:
    """Return the versions that must be the same on all hosts; of Python, 3.x is enough."""
    found = {"Python": ".".join(platform.python_version_tuple()[:2])}
    for package in _COMPARED:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


class Hosts(api.Cluster):
    """Hosts on which a program can be started that reads from here and writes to here."""

    kind = "measured"
    network = "the hosts' own network"
    cpu_limit = "none: a node is a whole host"
    remote = True

    setup: str  # the command that makes the environment on a host
    renew: str  # the command that makes it anew, with the versions that are here
    _hosts: list[str]  # what the hosts reach each other by, by rank, known once the cluster is open

    def __init__(self, size: int, allowed_ports: Sequence[int], per_host: int = 1) -> None:
        """Take places for `size` workers, `per_host` on each host.

        Of the ports from first to last, others are taken each time.
        """
        self.size, self.allowed_ports, self.per_host = size, allowed_ports, per_host
        first, last = allowed_ports
        # those of the cell before may still be in use
        self._first_port = random.randint(first, last - size + 1)  # noqa: S311

    def addresses(self) -> list[str]:
        return [f"{host}:{port}" for port, host in enumerate(self._hosts, self._first_port)]

    @abstractmethod
    def label(self, rank: int) -> str:
        """Return what records and messages call the host of `rank`."""

    @abstractmethod
    def names(self, rank: int) -> set[str]:
        """Return the names and addresses of the host of `rank`, which no record shows."""

    @abstractmethod
    def prepare(self, rank: int, files: Sequence[Path]) -> None:
        """Make the project's code and `files` known to the host of `rank`.

        Raises:
            RefusedError, NotPermittedError: that is not possible.
        """

    @abstractmethod
    def command(self, rank: int, environment: Mapping[str, str]) -> list[str]:
        """Return the command of this machine that runs the agent on the host of `rank`."""

    @abstractmethod
    def not_started(self, rank: int, code: int, output: list[str]) -> NoReturn:
        """Say why the agent did not start: `command` ended with exit code `code`.

        Raises:
            RefusedError, NotPermittedError: always.
        """

    @abstractmethod
    def end_of(self, code: int, output: list[str]) -> str:
        """Say why `command` ended with exit code `code` while the worker was at work."""

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
        """Start the agent on the host of `rank`; `show` what it prints.

        Raises:
            RefusedError, NotPermittedError: that is not possible.
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
                    message["failure"]["text"] = f"{self.label(rank)}: {message['failure']['text']}"
                channel.send(message)
            if channel.fileno() in ready:
                send(to, channel.wait())
            if time.monotonic() - beat_at > HEARTBEAT_S / 2:
                beat_at = time.monotonic()
                send(to, {"heartbeat": True})

    def _log(self, errors: IO[bytes], output: list[str], show: bool) -> None:
        """Collect what comes from a host, without its name."""
        for line in errors:
            text = self.without_names(line.decode(errors="replace").rstrip())
            output.append(text)
            if show:
                print(text, flush=True)

    def without_names(self, text: str) -> str:
        """Return `text` with the label of each host in place of its names."""
        for rank in range(self.size):
            for name in sorted(self.names(rank), key=len, reverse=True):
                text = text.replace(name, self.label(rank))
        return text


@dataclass
class Agent:
    """The agent on a host.

    Args:
        process: the client here that started it.
        there: the connection from it.
        to: the connection to it.
        hello: what it sent first.
        late_s: by how much its clock is ahead of this machine's.
        output: the lines that it has printed.
        log: the thread that collects them.
    """

    process: "subprocess.Popen[bytes]"
    there: Connection
    to: Connection
    hello: Message
    late_s: float
    output: list[str]
    log: threading.Thread

    def end(self) -> None:
        """End it."""
        self.to.close()
        self.there.close()
        self.process.kill()
        self.process.wait()


def agent_words(python: str, environment: Mapping[str, str]) -> list[str]:
    """Return the words of the command that is the agent, in the project's folder on a host."""
    variables = {"PYTHONPATH": "workflow", **environment}
    assignments = [f"{name}={value}" for name, value in variables.items()]
    return ["env", *assignments, python, "-m", "nodewise.measure.agent"]


def differences(hello: Message) -> list[str]:
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

    def __init__(self, addresses: list[str], *, gpus: str, threads: int) -> None:
        self._addresses, self.gpus, self.threads = addresses, gpus, threads

    @contextmanager
    def open(self) -> Iterator[None]:
        yield

    def addresses(self) -> list[str]:
        return self._addresses

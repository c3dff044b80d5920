"""Check the hosts of a cluster for `nodewise doctor`: what is missing and how to repair it."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from nodewise.cluster import api
from nodewise.cluster.channel import Message
from nodewise.cluster.hosts import Hosts, HostWorker, differences
from nodewise.core.errors import RefusedError


class Finding(NamedTuple):
    """One line about a host. `sound` is true if the host can be used nevertheless."""

    text: str
    sound: bool = False


def examine(hosts: Hosts) -> list[Finding]:
    """Check all hosts; return the findings in the order of the hosts."""
    found: list[list[Finding]] = [[] for _ in range(hosts.size)]
    started: list[HostWorker] = []
    agents: list[HostWorker] = []
    with hosts.open(), tempfile.TemporaryDirectory() as logs:
        try:
            for rank in range(hosts.size):
                try:
                    log = Path(logs, str(rank))
                    started.append(hosts.start(rank, log, {}, files=[], environment={}))
                except (RefusedError, api.NotPermittedError) as error:
                    found[rank].append(_finding(error))
            for agent in started:
                try:
                    hello = agent.hello()
                except (RefusedError, api.NotPermittedError) as error:
                    found[agent.rank].append(_finding(error))
                else:
                    found[agent.rank] += of_host(hosts.label(agent.rank), hello, hosts.setup)
                    agents.append(agent)
            for rank, problem in _unconnected(hosts, agents):
                found[rank].append(problem)
        finally:
            for agent in started:
                agent.close()
    return [finding for of_rank in found for finding in of_rank]


def of_host(label: str, hello: Message, setup: str) -> Iterator[Finding]:
    """Yield a summary of a host, then its problems.

    Args:
        label: label of the host.
        hello: first message of the host's agent.
        setup: command that creates the environment on the host.
    """
    yield Finding(
        f"{label}: {hello['cores']} cores, {hello['load']:.1f} of them busy; "
        f"{hello['memory_bytes'] / 1e9:.1f} GB of memory free, "
        f"{hello['disk_bytes'] / 1e9:.1f} GB of disk",
        sound=True,
    )
    for difference in differences(hello):
        yield Finding(f"{label}: {difference}{_repair(setup)}")


def _unconnected(hosts: Hosts, agents: list[HostWorker]) -> Iterator[tuple[int, Finding]]:
    """Have all hosts listen on their ports and connect to each other; yield ranks and problems."""
    addresses = hosts.addresses()
    ports = [api.parsed(address)[1] for address in addresses]
    for agent in agents:
        agent.send({"listen": ports[agent.rank]})
    listening = []
    for agent in agents:
        if _answer(agent).get("listening"):
            listening.append(agent)
        else:
            text = f"port {ports[agent.rank]} is taken; cluster.ports sets others"
            yield agent.rank, Finding(f"{hosts.label(agent.rank)}: {text}")
    first, last = hosts.allowed_ports
    firewall = f"if a firewall is the cause, there: sudo ufw allow {first}:{last}/tcp"
    others = {
        agent.rank: [other.rank for other in listening if other is not agent] for agent in listening
    }
    for agent in listening:
        agent.send({"connect": [addresses[other] for other in others[agent.rank]]})
    for agent in listening:
        ranks = others[agent.rank]
        for other in (ranks[at] for at in _answer(agent).get("unreached", range(len(ranks)))):
            text = f"cannot reach {hosts.label(other)} at port {ports[other]}; {firewall}"
            yield agent.rank, Finding(f"{hosts.label(agent.rank)}: {text}")


def _answer(agent: HostWorker) -> Message:
    """Return an agent's answer, or an empty one if the agent has ended."""
    try:
        return agent.receive()
    except (EOFError, ConnectionError):
        return {}


def _finding(error: Exception) -> Finding:
    return Finding(f"{error}{_repair(getattr(error, 'command', ''))}")


def _repair(command: str) -> str:
    return command and f"; to repair it, there: {command}"

"""Check the hosts of a cluster for `nodewise doctor`: what is missing and how to repair it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from nodewise.cluster import api
from nodewise.cluster.channel import Message, receive, send
from nodewise.cluster.hosts import Agent, Hosts, differences
from nodewise.core.errors import RefusedError

_LEAST_DISK = 2e9
_LEAST_MEMORY = 1e9
_CLOCK_WITHIN_S = 2.0  # because records of different hosts are compared by their times
_BUSY = 0.5  # share of the cores


class Finding(NamedTuple):
    """One line about a host. `sound` is true if the host can be used nevertheless."""

    text: str
    sound: bool = False


def examine(hosts: Hosts) -> list[Finding]:
    """Check all hosts in parallel; return the findings in the order of the hosts."""
    with hosts.open(), ThreadPoolExecutor(hosts.size) as pool:
        ranks = range(hosts.size)
        started = list(pool.map(lambda rank: _started(hosts, rank), ranks))
        agents = {rank: one for rank, one in enumerate(started) if isinstance(one, Agent)}
        taken = pool.map(lambda rank: _listen(hosts, rank, agents), agents)
        of_ports = dict(zip(agents, taken, strict=True))
        listening = [rank for rank, problems in of_ports.items() if not problems]
        apart = pool.map(lambda rank: _connect(hosts, rank, listening, agents), listening)
        of_ports |= zip(listening, apart, strict=True)
        found: list[Finding] = []
        for rank, one in enumerate(started):
            if isinstance(one, Finding):
                found.append(one)
            else:
                about = of_host(hosts.label(rank), one.hello, one.late_s, hosts.renew)
                found += [*about, *of_ports[rank]]
                one.end()
        return found


def _started(hosts: Hosts, rank: int) -> Agent | Finding:
    try:
        hosts.prepare(rank, [])
        return hosts.start_agent(rank, {}, show=False)
    except (RefusedError, api.NotPermittedError) as error:
        return Finding(f"{error}{_repair(getattr(error, 'command', ''))}")


def of_host(label: str, facts: Message, late_s: float, renew: str) -> Iterator[Finding]:
    """Yield a summary of a host, then its problems.

    Args:
        label: label of the host.
        facts: first message of the host's agent.
        late_s: seconds by which the host's clock is ahead of this machine's.
        renew: command that creates the environment on the host again.
    """
    yield Finding(
        f"{label}: {facts['cores']} cores, {facts['load']:.1f} of them busy; "
        f"{facts['memory_bytes'] / 1e9:.1f} GB of memory free, "
        f"{facts['disk_bytes'] / 1e9:.1f} GB of disk",
        sound=True,
    )
    for difference in differences(facts):
        yield Finding(f"{label}: {difference}{_repair(renew)}")
    if facts["load"] > _BUSY * facts["cores"]:
        yield Finding(f"{label}: its cores are busy; to see with what, there: top", sound=True)
    if facts["memory_bytes"] < _LEAST_MEMORY:
        yield Finding(f"{label}: its memory is nearly full; to see with what, there: top -o RES")
    if facts["disk_bytes"] < _LEAST_DISK:
        yield Finding(f"{label}: its disk is nearly full; to see with what, there: du -xhd 2 ~")
    if abs(late_s) > _CLOCK_WITHIN_S:
        late = f"its clock is {late_s:+.0f} s off"
        yield Finding(f"{label}: {late}{_repair('sudo timedatectl set-ntp true')}")


def _listen(hosts: Hosts, rank: int, agents: dict[int, Agent]) -> list[Finding]:
    """Have a host listen on its port; return a finding if it cannot."""
    _, port = api.parsed(hosts.addresses()[rank])
    if _ask(agents[rank], {"listen": port}).get("listening"):
        return []
    return [Finding(f"{hosts.label(rank)}: port {port} is taken; cluster.ports sets others")]


def _connect(
    hosts: Hosts, rank: int, listening: list[int], agents: dict[int, Agent]
) -> list[Finding]:
    """Have a host connect to all others that listen; return a finding for each it cannot reach."""
    others = [other for other in listening if other != rank]
    addresses = hosts.addresses()
    answer = _ask(agents[rank], {"connect": [addresses[other] for other in others]})
    first, last = hosts.allowed_ports
    firewall = f"if a firewall is the cause, there: sudo ufw allow {first}:{last}/tcp"
    return [
        Finding(
            f"{hosts.label(rank)}: cannot reach {hosts.label(others[place])} at port "
            f"{api.parsed(addresses[others[place]])[1]}; {firewall}"
        )
        for place in answer.get("unreached", range(len(others)))
    ]


def _ask(agent: Agent, question: Message) -> Message:
    """Return an agent's answer, or an empty one if the agent has ended."""
    try:
        send(agent.to, question)
        return receive(agent.there)
    except (EOFError, ConnectionError):
        return {}


def _repair(command: str) -> str:
    return command and f"; to repair it, there: {command}"

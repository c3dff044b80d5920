"""A network of nodes on this machine: one namespace a node, on one bridge, over rate-limited links.

No namespace has a name: each lives as long as a process in it, and takes its links along. What
leaves a node passes its own rate limit; what goes to it waits for the latency of the way, then for
its rate limit again, both at the bridge. So a packet is delayed once by the latency, and a sender
still feels its own queue as with a real network card.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from nodewise.cluster.api import NotPermittedError

# Smaller bursts split large segments: packets and wake-ups multiply, and the CPU becomes the link.
_BURST_S = 0.004
_MIN_BURST_BYTES = 70_000
_QUEUE = "50ms"
# The way itself loses nothing; the queue behind it does.
_PACKETS_ON_THE_WAY = 1_000_000

_ROOT = 0x10000
_BELOW_ROOT = 0x10001
_CHILD = 0x20000


class LinkUse(NamedTuple):
    """What has passed a node's link since it was laid, as the node sees it.

    Bytes are those of frames as the stack hands them over: a large segment that a
    network card would split counts once, with one header. `drops` were refused on the way to the
    node; what its own queue refuses, its stack notices at once and has not sent.
    """

    sent_bytes: int
    received_bytes: int
    drops: int


def address(rank: int) -> str:
    """Return the address of a node; it exists in the namespaces of one cell only."""
    return f"10.77.0.{rank + 1}"


def lay(pids: Sequence[int], per_node: int = 1) -> None:
    """Connect the namespaces of `pids` to a bridge in this process's own namespace.

    As fast as the machine can: what nodes exchange before they are timed need not wait for a link.
    With more than one of them `per_node`, those of a node are on a bridge of their own, from which
    one link goes to the others.

    Raises:
        NotPermittedError: the kernel lacks something for it, or forbids it.
        ProcessLookupError: one of `pids` has ended.
    """
    with _netlink() as links:
        with _needing("bridge", "CONFIG_BRIDGE", "bridge"):
            links.link("add", ifname="bridge", kind="bridge")
        bridge = _index(links, "bridge")
        links.link("set", index=bridge, state="up")
        switch = bridge
        for rank, pid in enumerate(pids):
            if per_node > 1 and rank % per_node == 0:
                switch = _lay_uplink(links, rank // per_node, bridge)
            peer = {"ifname": "eth0", "net_ns_pid": pid}
            with _needing("link", "CONFIG_VETH", "veth"):
                links.link("add", ifname=_port(rank), kind="veth", peer=peer)
            port = _index(links, _port(rank))
            links.link("set", index=port, master=switch, state="up")


def _lay_uplink(links: IPRoute, node: int, bridge: int) -> int:
    """Give a node a bridge of its own, linked to the one between nodes; return its index."""
    inner, outer = _uplink(node)
    links.link("add", ifname=f"inside{node}", kind="bridge")
    switch = _index(links, f"inside{node}")
    links.link("set", index=switch, state="up")
    links.link("add", ifname=inner, kind="veth", peer=outer)
    for name, master in ((inner, switch), (outer, bridge)):
        links.link("set", index=_index(links, name), master=master, state="up")
    return switch


def limit_uplinks(nodes: int, rate_mbit: float, latency_ms: float = 0) -> None:
    """Hold what leaves and what goes to each node of several workers, as `limit_ports` does.

    Raises:
        NotPermittedError: the kernel lacks something for it.
    """
    with _netlink() as links:
        for node in range(nodes):
            inner, outer = _uplink(node)
            _limit(links, _index(links, inner), rate_mbit)
            _limit(links, _index(links, outer), rate_mbit, latency_ms)


def limit_ports(nodes: int, rate_mbit: float, latency_ms: float = 0) -> None:
    """Hold what goes to each node to the rate, after the latency; in the process that laid them.

    From one node to another a packet then takes `latency_ms` and what the rates add.

    Raises:
        NotPermittedError: the kernel lacks something for it.
        ProcessLookupError: a node has ended.
    """
    with _netlink() as links:
        for rank in range(nodes):
            _limit(links, _index(links, _port(rank)), rate_mbit, latency_ms)


def limit_node(rate_mbit: float) -> None:
    """Hold what leaves this process's node to the rate."""
    with _netlink() as links:
        _limit(links, _index(links, "eth0"), rate_mbit)


def plug_in(address: str) -> None:
    """Bring up this namespace's end of its link, under its address, and its loopback."""
    with _netlink() as links:
        for name in ("lo", "eth0"):
            index = _index(links, name)
            if name == "eth0":
                links.addr("add", index=index, address=address, prefixlen=24)
            links.link("set", index=index, state="up")


def counters(nodes: int) -> list[LinkUse]:
    """Return what has passed each node's link; in the process that laid them.

    Raises:
        ProcessLookupError: a node has ended.
    """
    with _netlink() as links:
        return [_use(links, rank) for rank in range(nodes)]


@contextmanager
def _netlink() -> Iterator[IPRoute]:
    """Ask the kernel about links; a node that has ended, and taken its link along, is told so."""
    with IPRoute() as links:
        try:
            yield links
        except NetlinkError as error:
            if error.code not in (errno.ESRCH, errno.ENODEV):
                raise
            raise ProcessLookupError(error.code, os.strerror(error.code)) from error


def _index(links: IPRoute, name: str) -> int:
    for index in links.link_lookup(ifname=name):
        return int(index)
    raise ProcessLookupError(errno.ENODEV, f"{name} has gone with its node")


def _use(links: IPRoute, rank: int) -> LinkUse:
    port = _index(links, _port(rank))
    stats = links.get_links(port)[0].get_attr("IFLA_STATS64")
    return LinkUse(
        sent_bytes=stats["rx_bytes"],  # the port receives what the node sends
        received_bytes=stats["tx_bytes"],
        drops=_dropped(links, port) + stats["rx_dropped"] + stats["tx_dropped"],
    )


def _port(rank: int) -> str:
    return f"node{rank}"


def _uplink(node: int) -> tuple[str, str]:
    """Return both ends of a node's link: on its own bridge, and on the one between nodes."""
    return f"out{node}", f"in{node}"


def _dropped(links: IPRoute, index: int) -> int:
    """Return how many packets the outermost queue of a device refused; it counts those within."""
    return sum(
        queue.get_attr("TCA_STATS")["drop"]
        for queue in links.get_qdiscs(index)
        if queue["handle"] == _ROOT
    )


def _limit(links: IPRoute, index: int, rate_mbit: float, latency_ms: float = 0) -> None:
    place = {"handle": _ROOT}
    if latency_ms:
        with _needing("latency", "CONFIG_NET_SCH_NETEM", "sch_netem"):
            links.tc(
                "add",
                "netem",
                index,
                _ROOT,
                delay=round(latency_ms * 1000),
                limit=_PACKETS_ON_THE_WAY,
            )
        place = {"handle": _CHILD, "parent": _BELOW_ROOT}
    bytes_per_s = rate_mbit * 1e6 / 8
    burst = max(_MIN_BURST_BYTES, round(bytes_per_s * _BURST_S))
    with _needing("rate limit", "CONFIG_NET_SCH_TBF", "sch_tbf"):
        links.tc(
            "add",
            "tbf",
            index,
            rate=f"{round(rate_mbit * 1000)}kbit",
            burst=burst,
            latency=_QUEUE,
            **place,
        )


@contextmanager
def _needing(what: str, option: str, module: str) -> Iterator[None]:
    """Say in plain words what the kernel lacks if it refuses the block."""
    try:
        yield
    except NetlinkError as error:
        if error.code in (errno.ENOENT, errno.EOPNOTSUPP):
            reason = f"the kernel lacks {option}"
        elif error.code in (errno.EPERM, errno.EACCES):
            reason = os.strerror(error.code)
        else:
            raise
        raise NotPermittedError(f"no {what}: {reason}", _loading(module)) from error


def _loading(module: str) -> str:
    """Return the command that loads a module of the running kernel; empty if it has none such."""
    modules = Path("/lib/modules", os.uname().release, "modules.dep")
    if modules.exists() and f"/{module}.ko" in modules.read_text(encoding="utf-8"):
        return f"sudo modprobe {module}"
    return ""

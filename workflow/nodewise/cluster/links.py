"""Emulate a network on this machine: network namespaces on a bridge, with rate-limited links.

Each node has a namespace and a link to the bridge. The namespaces have no names: each exists as
long as a process in it, and its links vanish with it.

Packets that leave a node pass the node's own rate limit. At the bridge, packets to a node wait for
the latency and then pass the receiver's rate limit. So the latency delays each packet once, and a
sender still sees its own queue, as with a real network card.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from nodewise.core.errors import RefusedError

# Smaller bursts would split large segments into many packets, and the CPU would limit the rate.
_BURST_S = 0.004
_MIN_BURST_BYTES = 70_000
_QUEUE = "50ms"
# Large enough that the delay drops no packets. Only the queue of the rate limit does.
_PACKETS_ON_THE_WAY = 1_000_000

_ROOT = 0x10000
_BELOW_ROOT = 0x10001
_CHILD = 0x20000


def address(rank: int) -> str:
    """Return the IP address of a node. It is valid in the namespaces of one cell only."""
    return f"10.77.0.{rank + 1}"


def lay(pids: Sequence[int], per_machine: int = 1) -> None:
    """Connect the namespaces of processes to a bridge in this process's own namespace.

    The links have no rate limit yet, so that what nodes exchange before they are timed is not
    slowed down.

    Args:
        pids: one process in each namespace, in the order of ranks.
        per_machine: number of workers on each emulated machine. If it is more than 1, the workers
            of a machine share a bridge of their own, which has one link to the bridge between
            machines.

    Raises:
        RefusedError: the kernel lacks a feature, or forbids it.
        ProcessLookupError: one of `pids` has ended.
    """
    with _netlink() as links:
        with _needing("bridge", "bridge"):
            links.link("add", ifname="bridge", kind="bridge")
        bridge = _index(links, "bridge")
        links.link("set", index=bridge, state="up")
        switch = bridge
        for rank, pid in enumerate(pids):
            if per_machine > 1 and rank % per_machine == 0:
                switch = _lay_uplink(links, rank // per_machine, bridge)
            peer = {"ifname": "eth0", "net_ns_pid": pid}
            with _needing("link", "veth"):
                links.link("add", ifname=_port(rank), kind="veth", peer=peer)
            port = _index(links, _port(rank))
            links.link("set", index=port, master=switch, state="up")


def _lay_uplink(links: IPRoute, machine: int, bridge: int) -> int:
    """Create a machine's own bridge and link it to the bridge between machines; return its index.

    `machine` is its number; it has several workers.
    """
    inner, outer = _uplink(machine)
    links.link("add", ifname=f"inside{machine}", kind="bridge")
    switch = _index(links, f"inside{machine}")
    links.link("set", index=switch, state="up")
    links.link("add", ifname=inner, kind="veth", peer=outer)
    for name, master in ((inner, switch), (outer, bridge)):
        links.link("set", index=_index(links, name), master=master, state="up")
    return switch


def limit(nodes: int, rate_mbit: float, latency_ms: float = 0, per_machine: int = 1) -> None:
    """Limit the rate of packets towards each node, after delaying them by the latency.

    Call it in the process that called `lay`. From one node to another, a packet then takes
    `latency_ms` plus the time that the rate limits add. If machines have several workers, this
    limits both directions of each machine's link instead.

    Raises:
        RefusedError: the kernel lacks a feature.
        ProcessLookupError: a node has ended.
    """
    with _netlink() as links:
        if per_machine == 1:
            for rank in range(nodes):
                _limit(links, _index(links, _port(rank)), rate_mbit, latency_ms)
            return
        for machine in range(-(-nodes // per_machine)):
            inner, outer = _uplink(machine)
            _limit(links, _index(links, inner), rate_mbit)
            _limit(links, _index(links, outer), rate_mbit, latency_ms)


def limit_node(rate_mbit: float) -> None:
    """Limit the rate of packets that leave the node of this process."""
    with _netlink() as links:
        _limit(links, _index(links, "eth0"), rate_mbit)


def plug_in(address: str) -> None:
    """Bring up the loopback and this namespace's end of its link, with the given IP address."""
    with _netlink() as links:
        for name in ("lo", "eth0"):
            index = _index(links, name)
            if name == "eth0":
                links.addr("add", index=index, address=address, prefixlen=24)
            links.link("set", index=index, state="up")


def counters(nodes: int) -> list[dict[str, int]]:
    """Return the traffic of each node's link, as in NodeUsage, since the link was created.

    Call it in the process that called `lay`. Bytes are those of frames as the network stack passes
    them on: a large segment, which a network card would split, counts once with one header. Packets
    that the node's own queue refuses are not counted as dropped, because they were not sent.

    Raises:
        ProcessLookupError: a node has ended.
    """
    with _netlink() as links:
        uses = []
        for rank in range(nodes):
            port = _index(links, _port(rank))
            stats = links.get_links(port)[0].get_attr("IFLA_STATS64")
            roots = [queue for queue in links.get_qdiscs(port) if queue["handle"] == _ROOT]
            refused = sum(queue.get_attr("TCA_STATS")["drop"] for queue in roots)
            use = {
                "sent_bytes": stats["rx_bytes"],  # the port receives what the node sends
                "received_bytes": stats["tx_bytes"],
                "dropped_packets": refused + stats["rx_dropped"] + stats["tx_dropped"],
            }
            uses.append(use)
        return uses


@contextmanager
def _netlink() -> Iterator[IPRoute]:
    """Open a connection to the kernel for commands about links.

    Raises:
        ProcessLookupError: a node has ended, and its link has vanished with it.
    """
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


def _port(rank: int) -> str:
    return f"node{rank}"


def _uplink(machine: int) -> tuple[str, str]:
    """Return the names of both ends of a machine's link: on its own bridge, on the outer bridge."""
    return f"out{machine}", f"in{machine}"


def _limit(links: IPRoute, index: int, rate_mbit: float, latency_ms: float = 0) -> None:
    place = {"handle": _ROOT}
    if latency_ms:
        with _needing("latency", "sch_netem"):
            delay = {"delay": round(latency_ms * 1000), "limit": _PACKETS_ON_THE_WAY}
            links.tc("add", "netem", index, _ROOT, **delay)
        place = {"handle": _CHILD, "parent": _BELOW_ROOT}
    bytes_per_s = rate_mbit * 1e6 / 8
    burst = max(_MIN_BURST_BYTES, round(bytes_per_s * _BURST_S))
    with _needing("rate limit", "sch_tbf"):
        rate = f"{round(rate_mbit * 1000)}kbit"
        links.tc("add", "tbf", index, rate=rate, burst=burst, latency=_QUEUE, **place)


@contextmanager
def _needing(what: str, module: str) -> Iterator[None]:
    """Translate the kernel's refusal of the block into an error for the user.

    Args:
        what: what the block creates, for the message.
        module: kernel module that provides it.

    Raises:
        RefusedError: the kernel lacks the feature, or forbids it.
    """
    try:
        yield
    except NetlinkError as error:
        if error.code in (errno.ENOENT, errno.EOPNOTSUPP):
            raise RefusedError(
                f"no {what}: the kernel lacks {module}", f"sudo modprobe {module}"
            ) from error
        if error.code in (errno.EPERM, errno.EACCES):
            raise RefusedError(f"no {what}: {os.strerror(error.code)}") from error
        raise

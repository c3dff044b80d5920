"""A network of nodes on this machine: one namespace a node, on one bridge, over rate-limited links.

No namespace has a name: each lives as long as a process in it, and takes its links along.
"""

from collections.abc import Sequence

from pyroute2 import IPRoute

# Smaller bursts split large segments: packets and wake-ups multiply, and the CPU becomes the link.
_BURST_S = 0.004
_MIN_BURST_BYTES = 70_000
_QUEUE = "50ms"


def address(rank: int) -> str:
    """Return the address of a node; it exists in the namespaces of one cell only."""
    return f"10.77.0.{rank + 1}"


def lay(pids: Sequence[int], rate_mbit: float) -> None:
    """Connect the namespaces of `pids` to a bridge in this process's own namespace."""
    with IPRoute() as links:
        links.link("add", ifname="bridge", kind="bridge")
        bridge = links.link_lookup(ifname="bridge")[0]
        links.link("set", index=bridge, state="up")
        for rank, pid in enumerate(pids):
            peer = {"ifname": "eth0", "net_ns_pid": pid}
            links.link("add", ifname=f"node{rank}", kind="veth", peer=peer)
            port = links.link_lookup(ifname=f"node{rank}")[0]
            _limit(links, port, rate_mbit)
            links.link("set", index=port, master=bridge, state="up")


def plug_in(address: str, rate_mbit: float) -> None:
    """Bring up this namespace's end of its link, under its address, and its loopback."""
    with IPRoute() as links:
        for name in ("lo", "eth0"):
            index = links.link_lookup(ifname=name)[0]
            if name == "eth0":
                links.addr("add", index=index, address=address, prefixlen=24)
                _limit(links, index, rate_mbit)
            links.link("set", index=index, state="up")


def _limit(links: IPRoute, index: int, rate_mbit: float) -> None:
    bytes_per_s = rate_mbit * 1e6 / 8
    burst = max(_MIN_BURST_BYTES, round(bytes_per_s * _BURST_S))
    links.tc(
        "add",
        "tbf",
        index,
        0x10000,
        rate=f"{round(rate_mbit * 1000)}kbit",
        burst=burst,
        latency=_QUEUE,
    )

"""Emulate machines on this one: each node has a share of a core and a rate-limited link.

A node with a share q of a core and a link of rate r behaves like a node with one whole core and a
link of rate r / q in slow motion: both computing and communicating take 1 / q times as long.

The shares are enforced by the kernel's CPU quota if a cgroup can be created, otherwise by a duty
cycle.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from nodewise.cluster import api, cgroup, links, namespace
from nodewise.cluster.cgroup import CpuGroups
from nodewise.cluster.duty_cycle import DutyCycle
from nodewise.cluster.kinds.emulated import Emulated
from nodewise.cluster.worker_state import cpu_s
from nodewise.results.record import NodeUsage


class EmulatedNodes(api.Cluster):
    """Emulated machines for `nodes` workers, with `devices_per_node` workers on each machine."""

    def __init__(self, nodes: int, settings: Emulated) -> None:
        self._nodes, self._settings = nodes, settings
        self._pids: Sequence[int] = ()
        self._links_limited = False
        self.kind = "emulated"
        self.shares = [settings.cpu_of(rank) for rank in range(nodes)]

    def __getstate__(self) -> dict[str, object]:
        """Return the state to pickle for workers. The limiter stays in the launcher."""
        return {name: value for name, value in vars(self).items() if name != "_limiter"}

    @contextmanager
    def open(self) -> Iterator[None]:
        try:
            base = cgroup.find_base()
        except OSError:
            self.kind = "emulated soft"
            self.cpu_limit = "soft: a share per node, held by stopping and continuing it"
            self._limiter: CpuGroups | DutyCycle = DutyCycle()
        else:
            self.cpu_limit = "a quota per node, by cgroup"
            self._limiter = CpuGroups(base, self._nodes)
        self._has_links = namespace.enter_network()
        if self._has_links:
            link, inside = self._settings.link, self._settings.devices_per_node
            apart = "a namespace per node on one bridge"
            if inside > 1:
                apart = f"a namespace per worker, a bridge per {inside} of them, one between these"
            latency = f", {link.latency_ms:g} ms" if link.latency_ms else ""
            self.network = f"{apart}, {link.rate_mbit:g} Mbit/s{latency}"
        else:
            self.network = namespace.NO_EMULATION
            self._ports = namespace.free_ports(self._nodes)
        with self._limiter.held():
            yield

    def addresses(self) -> list[str]:
        if self._has_links:
            return [f"{links.address(rank)}:{api.FIRST_PORT}" for rank in range(self._nodes)]
        return [f"127.0.0.1:{port}" for port in self._ports]

    def enter_node(self, rank: int) -> None:
        if self._has_links:
            namespace.enter_network_namespace()

    def connect(self, pids: Sequence[int]) -> None:
        self._pids = pids
        for rank, pid in enumerate(pids):
            self._limiter.put(rank, pid)
        if self._has_links:
            links.lay(pids, self._settings.devices_per_node)

    def join(self, rank: int) -> None:
        if self._has_links:
            links.plug_in(links.address(rank))

    def limit_link(self, rank: int) -> None:
        if self._has_links and self._settings.devices_per_node == 1:
            links.limit_node(self._settings.link.rate_mbit)

    def apply_limits(self) -> None:
        if self._has_links and not self._links_limited:
            link, inside = self._settings.link, self._settings.devices_per_node
            links.limit(self._nodes, link.rate_mbit, link.latency_ms, inside)
            self._links_limited = True
        for rank, share in enumerate(self.shares):
            self._limiter.limit(rank, share)

    def check(self) -> None:
        self._limiter.check()

    def lift_limits(self) -> None:
        self._limiter.check()
        for rank in range(self._nodes):
            self._limiter.limit(rank, None)

    def usage(self) -> list[NodeUsage]:
        nothing = {"sent_bytes": 0, "received_bytes": 0, "dropped_packets": 0}
        uses = links.counters(self._nodes) if self._has_links else [nothing] * self._nodes
        return [
            NodeUsage(cpu_s=cpu_s(pid), **self._limiter.throttled(rank), **use)
            for rank, (pid, use) in enumerate(zip(self._pids, uses, strict=True))
        ]

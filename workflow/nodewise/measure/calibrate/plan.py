"""What one launch of a calibration measures, chosen so that it takes about half a minute."""

from typing import NamedTuple, get_args

from nodewise.cluster.api import Cluster, LinkedSettings
from nodewise.core.cell import Cluster as Settings
from nodewise.core.cell import Frozen
from nodewise.results.calibration import Collective, Transfer

PAYLOADS = (4_000, 64_000, 512_000, 4_000_000, 16_000_000, 64_000_000)

_BUSY_S = 2.0
_TRANSFER_S = 3.0
_BLOCK_S = 0.7  # how long the all-reduces of one payload take together, if one is no longer
_LONGEST_S = 3.0
_SOFTWARE_S = {"ring": 0.004, "direct": 0.0005}  # of a whole core for an all-reduce, roughly
_START_S = 5.0
_PROBED_BYTES = 16_000_000


class Pace(NamedTuple):
    """What a link is expected to give: bits per second, and seconds of latency one way."""

    bit_s: float
    latency_s: float

    @classmethod
    def seen(cls, transfer: Transfer) -> "Pace":
        """Return what a stream had of a link."""
        return cls(transfer.bits_per_s, (transfer.round_trip_s or 0.0) / 2)


class Block(Frozen):
    """`repeats` all-reduces of `payload_bytes`, expected to take `expected_s` together."""

    collective: Collective
    payload_bytes: int
    repeats: int
    expected_s: float


class Plan(Frozen):
    """One launch: busy loops, between two nodes a stream of bytes, then blocks of all-reduces."""

    cluster: Settings
    nodes: int
    repeat: int
    busy_s: float
    transfer_bytes: int
    blocks: list[Block]
    time_limit_s: float

    def take(self) -> Cluster:
        """Return its nodes, not yet opened."""
        assert isinstance(self.cluster, LinkedSettings)  # noqa: S101 (others have no calibration)
        return self.cluster.take(self.nodes)

    @property
    def expected_s(self) -> float:
        """How long the launch takes, roughly."""
        transfer_s = _TRANSFER_S if self.transfer_bytes else 0
        blocks_s = sum(block.expected_s for block in self.blocks)
        return _START_S + self.busy_s + transfer_s + blocks_s


def plan_probe(cluster: LinkedSettings, time_limit_s: float) -> Plan:
    """Return a launch that tells of an unknown link how fast it is."""
    return Plan(
        cluster=cluster,
        nodes=2,
        repeat=0,
        busy_s=0.1,
        transfer_bytes=_PROBED_BYTES,
        blocks=[],
        time_limit_s=time_limit_s,
    )


def plan_launch(
    cluster: LinkedSettings, nodes: int, repeat: int, time_limit_s: float, pace: Pace | None = None
) -> Plan:
    """Return what a launch of `nodes` measures.

    Payloads that would take very long on this link are left out; short ones are repeated. `pace`
    is that of the link, where the settings do not say it.
    """
    pace = pace or Pace(cluster.link_bit_s, cluster.latency_s)
    return Plan(
        cluster=cluster,
        nodes=nodes,
        repeat=repeat,
        busy_s=_BUSY_S,
        transfer_bytes=round(_TRANSFER_S * pace.bit_s / 8) if nodes == 2 else 0,
        blocks=[
            block
            for payload in PAYLOADS
            for collective in get_args(Collective)
            if nodes > 1
            and (block := _block(cluster.share, pace, nodes, payload, collective)).expected_s
            <= _LONGEST_S
        ],
        time_limit_s=time_limit_s,
    )


def _block(share: float, pace: Pace, nodes: int, payload: int, collective: Collective) -> Block:
    messages = 2 * (nodes - 1)
    wire_s = messages / nodes * payload * 8 / pace.bit_s
    each_s = wire_s + messages * pace.latency_s + _SOFTWARE_S[collective] / share
    repeats = max(1, round(_BLOCK_S / each_s))
    return Block(
        collective=collective,
        payload_bytes=payload,
        repeats=repeats,
        expected_s=repeats * each_s,
    )

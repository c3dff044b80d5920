"""The plan of one launch of a calibration, chosen so that it takes about half a minute."""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple, Self, get_args

from pydantic import Field

from nodewise.cluster.api import Cluster, LinkedSettings
from nodewise.core.cell import Cluster as Settings
from nodewise.core.cell import Frozen
from nodewise.results.calibration import Collective, Transfer

PAYLOADS = (4_000, 64_000, 512_000, 4_000_000, 16_000_000, 64_000_000)

_BUSY_S = 2.0
_TRANSFER_S = 3.0
_BLOCK_S = 0.7  # duration of all all-reduces of one payload, unless a single one takes longer
_LONGEST_S = 3.0
_SOFTWARE_S = {"ring": 0.004, "direct": 0.0005}  # rough CPU time of an all-reduce on a whole core
_START_S = 5.0
_STREAM_S = 2.0
_ENOUGH_BYTES = 100_000_000_000  # more than any link carries in `_STREAM_S`
_MOST_PAIRED = 8  # up to this many hosts, every pair streams


class Pace(NamedTuple):
    """The expected speed of a link: bits per second, and one-way latency in seconds."""

    bit_s: float
    latency_s: float

    @classmethod
    def slowest(cls, streams: Sequence[Transfer]) -> Self:
        """Return the lowest rate and the highest latency of all `streams`."""
        round_trip_s = max(one.round_trip_s or 0.0 for one in streams)
        return cls(min(one.bits_per_s for one in streams), round_trip_s / 2)


class Block(Frozen):
    """`repeats` all-reduces of `payload_bytes`, expected to take `expected_s` in total."""

    collective: Collective
    payload_bytes: int
    repeats: int
    expected_s: float


class Plan(Frozen):
    """One launch: busy loops, then streams between pairs of nodes, then blocks of all-reduces.

    In each pair of ranks in `pairs`, the first sends `stream_bytes` to the second, or as many as
    arrive within `stream_s`. Only one pair streams at a time.
    """

    cluster: Settings
    nodes: int
    repeat: int
    busy_s: float
    pairs: list[tuple[int, int]] = Field(default_factory=list)
    stream_bytes: int = 0
    stream_s: float = 0.0
    blocks: list[Block]
    time_limit_s: float

    def take(self) -> Cluster:
        """Return the nodes of the launch, not yet opened."""
        assert isinstance(self.cluster, LinkedSettings)  # noqa: S101 (others have no calibration)
        return self.cluster.take(self.nodes)

    @property
    def expected_s(self) -> float:
        """The rough duration of the launch, in seconds."""
        return _START_S + self.busy_s + self._left_s(0, 0)

    def share_done(self, streams: int, blocks: int = 0) -> float:
        """Return the share of the launch that is done after that many streams and blocks."""
        return 1 - self._left_s(streams, blocks) / self.expected_s

    def _left_s(self, streams: int, blocks: int) -> float:
        streams_s = (len(self.pairs) - streams) * min(_TRANSFER_S, self.stream_s)
        return streams_s + sum(block.expected_s for block in self.blocks[blocks:])


def plan_probe(cluster: LinkedSettings, nodes: int, time_limit_s: float) -> Plan:
    """Return a launch that measures the speed of the unknown links between `nodes` hosts."""
    if nodes <= _MOST_PAIRED:
        pairs = list(combinations(range(nodes), 2))
    else:
        pairs = [(rank, (rank + 1) % nodes) for rank in range(nodes)]
    return Plan(
        cluster=cluster,
        nodes=nodes,
        repeat=0,
        busy_s=0.1,
        pairs=pairs,
        stream_bytes=_ENOUGH_BYTES,
        stream_s=_STREAM_S,
        blocks=[],
        time_limit_s=time_limit_s + 2 * _STREAM_S * len(pairs),
    )


def plan_launch(
    cluster: LinkedSettings, nodes: int, repeat: int, time_limit_s: float, pace: Pace | None = None
) -> Plan:
    """Return the launch of `nodes` nodes.

    Payloads that would take very long on this link are left out; short all-reduces are repeated.
    `pace` is the pace of the link, needed if the settings do not contain it.
    """
    pace = pace or Pace(cluster.link_bit_s, cluster.latency_s)
    return Plan(
        cluster=cluster,
        nodes=nodes,
        repeat=repeat,
        busy_s=_BUSY_S,
        pairs=[(0, 1)] if nodes == 2 else [],
        stream_bytes=round(_TRANSFER_S * pace.bit_s / 8) if nodes == 2 else 0,
        stream_s=time_limit_s,
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

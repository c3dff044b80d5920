"""What one launch of a calibration measures, chosen so that it takes about half a minute."""

from typing import get_args

from nodewise.cluster.kinds.emulated import Emulated
from nodewise.core.cell import Frozen
from nodewise.results.calibration import Collective

PAYLOADS = (4_000, 64_000, 512_000, 4_000_000, 16_000_000, 64_000_000)

_BUSY_S = 2.0
_TRANSFER_S = 3.0
_BLOCK_S = 0.7  # how long the all-reduces of one payload take together, if one is no longer
_LONGEST_S = 3.0
_SOFTWARE_S = {"ring": 0.004, "direct": 0.0005}  # of a whole core for an all-reduce, roughly
_START_S = 5.0


class Block(Frozen):
    """`repeats` all-reduces of `payload_bytes`, expected to take `expected_s` together."""

    collective: Collective
    payload_bytes: int
    repeats: int
    expected_s: float


class Plan(Frozen):
    """One launch: busy loops, between two nodes a stream of bytes, then blocks of all-reduces."""

    cluster: Emulated
    nodes: int
    repeat: int
    busy_s: float
    transfer_bytes: int
    blocks: list[Block]
    time_limit_s: float

    @property
    def expected_s(self) -> float:
        """How long the launch takes, roughly."""
        transfer_s = _TRANSFER_S if self.transfer_bytes else 0
        blocks_s = sum(block.expected_s for block in self.blocks)
        return _START_S + self.busy_s + transfer_s + blocks_s


def plan_launch(cluster: Emulated, nodes: int, repeat: int, time_limit_s: float) -> Plan:
    """Return what a launch of `nodes` measures.

    Payloads that would take very long on this link are left out; short ones are repeated.
    """
    bytes_per_s = cluster.link.rate_mbit * 1e6 / 8
    return Plan(
        cluster=cluster,
        nodes=nodes,
        repeat=repeat,
        busy_s=_BUSY_S,
        transfer_bytes=round(_TRANSFER_S * bytes_per_s) if nodes == 2 else 0,
        blocks=[
            block
            for payload in PAYLOADS
            for collective in get_args(Collective)
            if nodes > 1
            and (block := _block(cluster, nodes, payload, collective)).expected_s <= _LONGEST_S
        ],
        time_limit_s=time_limit_s,
    )


def _block(cluster: Emulated, nodes: int, payload: int, collective: Collective) -> Block:
    messages = 2 * (nodes - 1)
    wire_s = messages / nodes * payload * 8 / (cluster.link.rate_mbit * 1e6)
    software_s = _SOFTWARE_S[collective] / cluster.share
    each_s = wire_s + messages * cluster.link.latency_ms / 1000 + software_s
    repeats = max(1, round(_BLOCK_S / each_s))
    return Block(
        collective=collective,
        payload_bytes=payload,
        repeats=repeats,
        expected_s=repeats * each_s,
    )

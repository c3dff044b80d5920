"""Quiet-machine thresholds: how much a machine may be disturbed during a measurement.

A block outside the thresholds is repeated because it says more about the machine than about the
cell. If repetitions fail too, the last block is kept and flagged.
"""

from collections.abc import Sequence

from nodewise.core.units import write_percent
from nodewise.results.record import Conditions

MAX_BLOCKS = 3  # after these, the last one is kept and flagged
THRESHOLDS = {
    "the reference step changed by {} during the block": 0.10,
    "the hypervisor took {} of the cores' time (steal time)": 0.02,
    "other processes used {} of the cores' time": 0.10,
    "a node exceeded its share of a core by {}": 0.05,
}
"""The largest allowed value of each disturbance, by the sentence that says it."""


def failed(
    seen: Conditions, shares: Sequence[float], *, cores: float, host_cores: int
) -> list[str]:
    """Return one message for each threshold that a block failed.

    Args:
        seen: the conditions of the block.
        shares: the share of a core that each node may use; empty if nodes are not limited.
        cores: number of cores that this process may use, for example in a container.
        host_cores: number of all cores of the machine; steal time is reported for all of them.
    """
    used = (node.cpu_s / share for node, share in zip(seen.nodes, shares, strict=True))
    values = (
        abs(seen.reference_after_us / seen.reference_before_us - 1),
        seen.stolen_s / (seen.window_s * host_cores),
        seen.foreign_cpu_s / (seen.window_s * cores),
        max(used, default=0.0) / seen.window_s - 1,
    )
    return [
        sentence.format(write_percent(value))
        for (sentence, most), value in zip(THRESHOLDS.items(), values, strict=True)
        if value > most
    ]

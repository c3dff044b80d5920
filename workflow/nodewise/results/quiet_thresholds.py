"""Quiet-machine thresholds: how much a machine may be disturbed during a measurement.

A block outside the thresholds is repeated because it says more about the machine than about the
cell. If repetitions fail too, the last block is kept and flagged.
"""

from collections.abc import Sequence

from nodewise.core.units import write_percent
from nodewise.results.record import Conditions

MAX_BLOCKS = 3  # after these, the last one is kept and flagged

REFERENCE_MOVED = 0.10
STOLEN = 0.02
FOREIGN = 0.10
OVER_SHARE = 0.05

IN_WORDS = (
    f"the reference step changed by more than {write_percent(REFERENCE_MOVED)} during the block",
    f"the hypervisor took more than {write_percent(STOLEN)} of the cores' time (steal time)",
    f"other processes used more than {write_percent(FOREIGN)} of the cores' time",
    f"a node exceeded its share of a core by more than {write_percent(OVER_SHARE)}",
)


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
    reasons = []
    moved = seen.reference_after_us / seen.reference_before_us - 1
    if abs(moved) > REFERENCE_MOVED:
        than = "more" if moved > 0 else "less"
        by = write_percent(abs(moved))
        reasons.append(f"the reference step took {by} {than} after the block than before")
    whole = seen.window_s * host_cores
    if seen.stolen_s > STOLEN * whole:
        stolen = write_percent(seen.stolen_s / whole)
        reasons.append(f"the hypervisor took {stolen} of the cores' time (steal time)")
    whole = seen.window_s * cores
    if seen.foreign_cpu_s > FOREIGN * whole:
        foreign = write_percent(seen.foreign_cpu_s / whole)
        reasons.append(f"other processes used {foreign} of the cores' time")
    for rank, (node, share) in enumerate(zip(seen.nodes, shares, strict=True)):
        if node.cpu_s > (1 + OVER_SHARE) * share * seen.window_s:
            used = node.cpu_s / seen.window_s
            reasons.append(f"node {rank} used {used:.3f} of a core instead of {share:g}")
    return reasons

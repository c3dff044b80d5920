"""What nodes that are held by a duty cycle got of a core, and whether that is their share."""

from collections.abc import Sequence
from dataclasses import dataclass

TOLERANCE = 0.1

# While it runs a node is judged from then on; a bad second is one of several at least.
_JUDGED_AFTER_S = 3
_SECONDS_OUTSIDE = 0.25


@dataclass(frozen=True)
class Share:
    """What a node got in all the time it was limited to `asked`; shares of a core, means."""

    node: int
    asked: float
    got: float
    withheld: float  # it had budget and waited for a core, or the controller was late
    stopping: float  # used by its idle threads for being stopped and continued; not in `got`
    seconds: float
    seconds_outside: int  # seconds in which more than TOLERANCE was withheld, or got too much

    @property
    def error(self) -> float:
        """How far the node is from its share, relative to it: the larger of too little, too much.

        A node that wants less than its share is not far from it.
        """
        return max(self.withheld, self.got - self.asked) / self.asked

    @property
    def held(self) -> bool:
        """Whether the node was within TOLERANCE, over all and in three of four seconds."""
        return (
            self.error <= TOLERANCE and self.seconds_outside <= _SECONDS_OUTSIDE * self.seconds + 1
        )


def why_not_held(shares: Sequence[Share]) -> str | None:
    """Return one line on the node that is farthest from its share, or None if all are held."""
    judged = [share for share in shares if share.seconds >= _JUDGED_AFTER_S and not share.held]
    if not judged:
        return None
    worst = max(judged, key=lambda share: share.error)
    return (
        f"node {worst.node} got {worst.got:.3f} of a core instead of {worst.asked:.3f}"
        f" ({worst.seconds_outside} of {worst.seconds:.0f} s outside ±{TOLERANCE:.0%}):"
        " the machine is too busy or has too few cores for a stop/continue duty cycle;"
        " use fewer nodes or a smaller share, or run as root or in a delegated CPU cgroup"
    )

"""CPU shares that nodes got from a duty cycle, and whether these are what they should get."""

from collections.abc import Sequence
from dataclasses import dataclass

TOLERANCE = 0.1

# A node is judged after this many seconds, so that one bad second alone does not fail it.
_JUDGED_AFTER_S = 3
_SECONDS_OUTSIDE = 0.25


@dataclass(frozen=True)
class Share:
    """What a node got in all the time that it was limited to `asked`.

    `asked`, `got`, `withheld` and `stopping` are mean shares of a core.
    """

    node: int
    asked: float
    got: float
    withheld: float  # the node had budget but waited for a core, or the controller was late
    stopping: float  # used by idle threads to be stopped and continued; not part of `got`
    seconds: float
    seconds_outside: int  # seconds in which it got too little or too much by more than TOLERANCE

    @property
    def error(self) -> float:
        """Relative error of the share: the larger of what was withheld and what was in excess.

        A node that needs less than its share has no error.
        """
        return max(self.withheld, self.got - self.asked) / self.asked

    @property
    def held(self) -> bool:
        """Whether the node got its share.

        It has to be within TOLERANCE over the whole time, and in about three quarters of the
        seconds: those outside are at most a quarter of all, plus one.
        """
        return (
            self.error <= TOLERANCE and self.seconds_outside <= _SECONDS_OUTSIDE * self.seconds + 1
        )


def why_not_held(shares: Sequence[Share]) -> str | None:
    """Return one line about the node with the largest error; None if all nodes get their share."""
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

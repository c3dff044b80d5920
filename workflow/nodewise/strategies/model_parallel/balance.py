"""Where a chain of layers is cut, so that its stages cost about the same."""

from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from math import inf


def balanced(costs: Sequence[int], crossing: Sequence[int], stages: int) -> tuple[int, ...]:
    """Return where to cut a chain of pieces, so that its dearest stage is as cheap as can be.

    Args:
        costs: of each piece.
        crossing: what has to be sent when the chain is cut behind a piece. Of the cuts that are
            equally good for the dearest stage, the ones with the least to send are taken.
        stages: from 1 to the number of pieces; each gets one piece at least.

    Returns:
        The first pieces of the second stage, the third, and so on.
    """
    until = [0, *accumulate(costs)]

    def cost(first: int, end: int) -> int:
        return until[end] - until[first]

    def cuts(first: int, left: int) -> range:
        return range(first + 1, len(costs) - left + 2)

    @cache
    def dearest(first: int, left: int) -> int:
        """Return the cost of the dearest of the `left` stages from piece `first` on."""
        if left == 1:
            return cost(first, len(costs))
        return min(max(cost(first, cut), dearest(cut, left - 1)) for cut in cuts(first, left))

    most = dearest(0, stages)

    @cache
    def least_sent(first: int, left: int) -> tuple[float, tuple[int, ...]]:
        """Return what the `left` stages from piece `first` on send, and where to cut for it."""
        if left == 1:
            return (0 if cost(first, len(costs)) <= most else inf), ()
        found: list[tuple[float, tuple[int, ...]]] = []
        for cut in cuts(first, left):
            if cost(first, cut) <= most:
                sent, later = least_sent(cut, left - 1)
                found.append((crossing[cut - 1] + sent, (cut, *later)))
        return min(found, default=(inf, ()))

    return least_sent(0, stages)[1]

"""The all-reduce up and down a binomial tree."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nodewise.predict.law import LAWS, AllReduce, At, Value, Values
from nodewise.predict.laws.halving_doubling import HalvingDoubling


@LAWS.register
@dataclass(frozen=True)
class BinomialTree(AllReduce):
    """communicate = 2·log₂n·(α + S·β): sums go up a binomial tree, and the result down again.

    Every round passes whole gradients on. Exact for powers of two; between them a program takes the
    rounds of the next one.
    """

    name: ClassVar[str] = "tree"
    title: ClassVar[str] = "Binomial tree"
    source: ClassVar[str] = HalvingDoubling.source

    def communicate_s(self, p: Values, at: At) -> Value:
        """Return 2·log₂n·(α + S·β)."""
        return 2 * np.log2(at.nodes) * (p["latency_s"] + at.payload * p["seconds_per_byte"])

"""Pollux: gradient and synchronisation, overlapped."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nodewise.predict.law import LAWS, At, Law, Parameter, Value, Values, overlapped


@LAWS.register
@dataclass(frozen=True)
class Pollux(Law):
    """t = (gᵞ + (s + r(n−2))ᵞ)^(1/γ), g on one node: gradient and synchronisation, overlapped.

    γ lies between 1, no overlap, and 10, nearly as short as the longer of both; its authors fit it
    so. It is put as γ = 1 + 9x/(1 + x), so that x need only be at least 0. The original's gradient
    time grows with the batch; at one batch it is the constant g.
    """

    name: ClassVar[str] = "pollux"
    title: ClassVar[str] = "Pollux"
    source: ClassVar[str] = (
        "A. Qiao et al., Pollux: Co-adaptive cluster scheduling for goodput-optimized deep "
        "learning, OSDI 2021"
    )
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("gradient_s", "s", "line", "g: computing the gradient"),
        Parameter("sync_s", "s", "line", "s: synchronising two nodes"),
        Parameter("sync_per_node_s", "s", "line", "r: synchronising a node further"),
        Parameter("overlap_excess", "1", "line", "x: overlap; 0 is none"),
    )

    def step_s(self, p: Values, at: At) -> Value:
        """Return (gᵞ + (s + r(n−2))ᵞ)^(1/γ), or g on one node."""
        further = np.maximum(at.nodes - 2, 0.0)
        sync = (p["sync_s"] + p["sync_per_node_s"] * further) * (at.nodes > 1)
        excess = p["overlap_excess"]
        return overlapped(p["gradient_s"], sync, 1 + 9 * excess / (1 + excess))

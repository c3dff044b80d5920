"""Pollux: gradient and synchronisation, overlapped."""

from dataclasses import dataclass
from typing import ClassVar

import sympy
from sympy import Expr

from nodewise.predict.functions import Overlapped
from nodewise.predict.law import LAWS, Law, Parameter, n, positive

g, s, r, x = (positive(letter) for letter in "gsrx")
sync = sympy.Piecewise((s + r * sympy.Max(n - 2, 0), n > 1), (0, True))
gamma = 1 + 9 * x / (1 + x)


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
        Parameter("g", "gradient_s", "s", "line", "computing the gradient"),
        Parameter("s", "sync_s", "s", "line", "synchronising two nodes"),
        Parameter("r", "sync_per_node_s", "s", "line", "synchronising a node further"),
        Parameter("x", "overlap_excess", "1", "line", "overlap; 0 is none"),
    )
    step: ClassVar[Expr] = Overlapped(g, sync, gamma)

"""Pollux: gradient and synchronisation, overlapped."""

import sympy

from nodewise.predict.functions import Overlapped
from nodewise.predict.law import LAWS, Law, Parameter, n, positive

g, s, r, x = (positive(letter) for letter in "gsrx")
sync = sympy.Piecewise((s + r * sympy.Max(n - 2, 0), n > 1), (0, True))
gamma = 1 + 9 * x / (1 + x)


@LAWS.register
class Pollux(Law):
    """t = (gᵞ + (s + r(n−2))ᵞ)^(1/γ), g on one node: gradient and synchronisation, overlapped.

    As in the original, γ lies between 1 (no overlap) and 10 (almost only the longer of the two
    counts). It is written as γ = 1 + 9x/(1 + x), so that the only bound on x is x ≥ 0. In the
    original the gradient time grows with the batch; at one batch it is the constant g.
    """

    name = "pollux"
    title = "Pollux"
    source = (
        "A. Qiao et al., Pollux: Co-adaptive cluster scheduling for goodput-optimized deep "
        "learning, OSDI 2021"
    )
    parameters = (
        Parameter("g", "gradient_s", "s", "line", "computing the gradient"),
        Parameter("s", "sync_s", "s", "line", "synchronising two nodes"),
        Parameter("r", "sync_per_node_s", "s", "line", "synchronising a node further"),
        Parameter("x", "overlap_excess", "1", "line", "overlap; 0 is none"),
    )
    step = Overlapped(g, sync, gamma)

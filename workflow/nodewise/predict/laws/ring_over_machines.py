"""The ring all-reduce of nodes that share machines: devices, or workers with a fast link inside."""

from dataclasses import dataclass
from typing import ClassVar

import sympy
from sympy import Expr

from nodewise.predict.law import LAWS, Parameter, n, positive, setting
from nodewise.predict.laws.ring import RingAllReduce
from nodewise.predict.parts_law import AllReduce, alpha, beta

INSIDE = (
    Parameter("alpha_m", "inside_latency_s", "s", "link", "latency per message inside a machine"),
    Parameter(
        "beta_m", "inside_seconds_per_byte", "s/B", "link", "inverse bandwidth inside a machine"
    ),
)
_alpha_m, _beta_m = (p.symbol for p in INSIDE)


@LAWS.register
@dataclass(frozen=True)
class RingOverMachines(AllReduce):
    """communicate = 2(n−1)·α + 2(n−1)/n·S·β: a ring; up to m nodes are in one machine, with αₘ, βₘ.

    All messages of a round are sent at the same time, and a round ends with its slowest message. A
    ring over several machines passes the link between them in every round.
    """

    per_machine: float = setting("m", "1", "nodes in a machine", least=1)

    name: ClassVar[str] = "ring_over_machines"
    title: ClassVar[str] = "Ring over machines"
    source: ClassVar[str] = RingAllReduce.source
    parameters: ClassVar[tuple[Parameter, ...]] = (*AllReduce.parameters, *INSIDE)
    communicate: ClassVar[Expr] = sympy.Piecewise(
        (RingAllReduce.communicate.subs({alpha: _alpha_m, beta: _beta_m}), n <= positive("m")),
        (RingAllReduce.communicate, True),
    )

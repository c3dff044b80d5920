"""The laws of all-reduces: by a ring, a tree or one driver, and without an exchange."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
import sympy
from sympy import Expr

from nodewise.predict.law import LAWS, PARTS, Law, Parameter, S, in_order, n, positive, setting
from nodewise.predict.parts_law import PartsLaw, alpha, beta

HIDDEN = Parameter(
    "h",
    "hidden_share",
    "1",
    "link",
    "share of the shorter of computing and communicating that is hidden",
    shrink=0.05,
)
INSIDE = (
    Parameter("alpha_m", "inside_latency_s", "s", "link", "latency per message inside a machine"),
    Parameter(
        "beta_m", "inside_seconds_per_byte", "s/B", "link", "inverse bandwidth inside a machine"
    ),
)
_alpha_m, _beta_m = (p.symbol for p in INSIDE)
TURNS = Parameter(
    "w", "turns_share", "1", "link", "share of sending that waits for receiving", shrink=0.3
)


class AllReduce(PartsLaw):
    """Base class of laws in which every step sums gradients over all nodes.

    The exchange of the first gradients may hide behind the computing of the others. The share h of
    the shorter of computing and communicating is hidden. Each part is still the time it would take
    alone, so with h > 0 the parts add up to more than the step.
    """

    parameters: ClassVar[tuple[Parameter, ...]] = (*PartsLaw.parameters, HIDDEN)
    step = in_order(
        PARTS["compute"],
        PARTS["wait"],
        PARTS["input"],
        PARTS["communicate"],
        -sympy.Min(HIDDEN.symbol, 1) * sympy.Min(PARTS["compute"], PARTS["communicate"]),
    )


@LAWS.register
class RingAllReduce(AllReduce):
    """communicate = 2(n−1)·α + 2(n−1)/n·S·β: a ring all-reduce of the gradient.

    The ring sends 2(n−1) messages of S/n bytes in sequence: n−1 to sum, n−1 to distribute the sums.

    Example:
        >>> p = dict.fromkeys((c.name for c in RingAllReduce.parameters), 0.0)
        >>> p |= {"compute_per_example_s": 2e-4, "seconds_per_byte": 1 / 58e6}
        >>> RingAllReduce().evaluate(p, nodes=[1, 2, 3], batch=100, payload=5.8e6).round(3).tolist()
        [0.02, 0.12, 0.153]
    """

    name = "ring"
    title = "Ring all-reduce"
    source = (
        "P. Patarasuk and X. Yuan, Bandwidth optimal all-reduce algorithms for clusters of "
        "workstations, Journal of Parallel and Distributed Computing 69(2), 2009"
    )
    communicate = 2 * alpha * (n - 1) + 2 * S * beta * (n - 1) / n

    @classmethod
    def of_curve(cls, options: Mapping[str, Any], rows: pd.DataFrame) -> Law | None:
        """Return the law: `RingOverMachines` if a machine has several nodes."""
        per_machine = float(rows["nodes_per_machine"].max())
        if per_machine > 1:
            return RingOverMachines(per_machine)
        return super().of_curve(options, rows)


@LAWS.register
@dataclass(frozen=True)
class RingOverMachines(RingAllReduce):
    """communicate = 2(n−1)·α + 2(n−1)/n·S·β: a ring; n ≤ m nodes are in one machine, with αₘ, βₘ.

    All messages of a round are sent at the same time, and the round ends with the slowest one. A
    ring over several machines crosses the link between machines in every round, so that link alone
    determines α and β.
    """

    per_machine: float = setting("m", "1", "nodes in a machine", least=1)

    name: ClassVar[str] = "ring_over_machines"
    title: ClassVar[str] = "Ring over machines"
    parameters: ClassVar[tuple[Parameter, ...]] = (*AllReduce.parameters, *INSIDE)
    communicate: ClassVar[Expr] = sympy.Piecewise(
        (RingAllReduce.communicate.subs({alpha: _alpha_m, beta: _beta_m}), n <= positive("m")),
        (RingAllReduce.communicate, True),
    )


@LAWS.register
class Tree(AllReduce):
    """communicate = 2·log₂n·α + 2(n−1)/n·S·β: double binary trees, or halving and doubling.

    Sums need log₂n rounds, and another log₂n rounds return them. Every node sends as many bytes as
    in a ring. The formula is exact for powers of two and interpolates smoothly between them.
    """

    name = "tree"
    aliases = ("halving_doubling",)
    title = "Tree"
    source = (
        "R. Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication "
        "operations in MPICH, International Journal of High Performance Computing Applications "
        "19(1), 2005"
    )
    communicate = 2 * alpha * sympy.log(n) / sympy.log(2) + 2 * S * beta * (n - 1) / n


@LAWS.register
class Star(AllReduce):
    """communicate = (n−1)·(2α + (1 + w)·S·β): one node, the driver, sums and sends the sum back.

    The driver receives n−1 gradients over its link and sends the sum to each of the n−1 other
    nodes. At w = 1 it begins to send when all is summed; at w = 0 it sends each piece of the sum
    while it receives the next one, because a link carries bytes both ways at once.
    """

    name = "star"
    title = "Star, one driver"
    source = (
        "P. Moritz, R. Nishihara, I. Stoica and M. I. Jordan, SparkNet: Training deep networks in "
        "Spark, ICLR 2016, arXiv:1511.06051"
    )
    parameters = (*AllReduce.parameters, TURNS)
    communicate = (n - 1) * (2 * alpha + (1 + TURNS.symbol) * S * beta)


@LAWS.register
class NoExchange(PartsLaw):
    """communicate = 0: one node, or nodes that do not communicate."""

    name = "none"
    title = "No exchange"
    source = "no communication"
    communicate = sympy.S.Zero

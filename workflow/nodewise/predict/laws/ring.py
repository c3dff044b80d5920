"""The ring all-reduce, with one or several nodes per machine."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd
import sympy
from sympy import Expr

from nodewise.predict.law import LAWS, Law, Parameter, S, n, positive, setting
from nodewise.predict.parts_law import AllReduce, alpha, beta

INSIDE = (
    Parameter("alpha_m", "inside_latency_s", "s", "link", "latency per message inside a machine"),
    Parameter(
        "beta_m", "inside_seconds_per_byte", "s/B", "link", "inverse bandwidth inside a machine"
    ),
)
_alpha_m, _beta_m = (p.symbol for p in INSIDE)


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

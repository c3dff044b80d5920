"""The power law."""

from dataclasses import dataclass
from typing import ClassVar

from sympy import Expr

from nodewise.predict.law import LAWS, Law, Parameter, n, positive
from nodewise.predict.parts_law import ONE_NODE

k = positive("k")


@LAWS.register
@dataclass(frozen=True)
class PowerLaw(Law):
    """t = a·nᵏ, k ≥ 0: a step never gets shorter by nodes; of a job, T(n) = T(1)·nᵏ⁻¹."""

    name: ClassVar[str] = "power"
    title: ClassVar[str] = "Power law"
    source: ClassVar[str] = "a straight line of logarithms over the nodes"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        ONE_NODE,
        Parameter(
            "k", "exponent", "1", "line", "0 where nodes cost nothing, 1 where they gain none"
        ),
    )
    step: ClassVar[Expr] = ONE_NODE.symbol * n**k

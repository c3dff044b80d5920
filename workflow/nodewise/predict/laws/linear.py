"""The straight line."""

from dataclasses import dataclass
from typing import ClassVar

from sympy import Expr

from nodewise.predict.law import LAWS, Law, Parameter, n, positive
from nodewise.predict.parts_law import ONE_NODE

k = positive("k")


@LAWS.register
@dataclass(frozen=True)
class Linear(Law):
    """t = a + k·(n−1): each further node adds the same, as if one after another were served.

    The baseline of those who read no law. Where nodes make a job shorter it is Amdahl's line; only
    this one can say that they make it longer (k > a).
    """

    name: ClassVar[str] = "linear"
    title: ClassVar[str] = "Straight line"
    source: ClassVar[str] = "a straight line over the nodes"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        ONE_NODE,
        Parameter("k", "per_node_s", "s", "line", "what each further node adds"),
    )
    step: ClassVar[Expr] = ONE_NODE.symbol + k * (n - 1)

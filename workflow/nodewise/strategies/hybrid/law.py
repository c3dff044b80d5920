"""The law of the step time of parallel pipelines, for its page. Nothing is fitted to it."""

from dataclasses import dataclass
from typing import ClassVar

from sympy import Expr

from nodewise.predict.law import Parameter, S, n, positive, setting
from nodewise.predict.laws.pipeline import GPipe
from nodewise.predict.laws.ring import RingAllReduce
from nodewise.predict.parts_law import SHARDED_STEP

WAIT = Parameter("w", "wait_s", "s", "line", "waiting for the slowest group")
p, g = positive("p"), positive("g")


@dataclass(frozen=True)
class Step(GPipe):
    """A pipeline of p stages, then a ring all-reduce of a stage's gradient over g groups.

    The size of a stage's gradient is taken as S/p. In fact stages are cut by their operations, so
    that some have more weights than others.
    """

    stages: int = setting("p", "1", "stages of a pipeline", least=1, default=1)
    groups: int = setting("g", "1", "groups of nodes, each of them a pipeline", least=1, default=1)

    title: ClassVar[str] = "Pipelines in data parallel"
    parameters: ClassVar[tuple[Parameter, ...]] = (*GPipe.parameters, WAIT)
    wait: ClassVar[Expr] = GPipe.wait.subs(n, p) + WAIT.symbol
    communicate: ClassVar[Expr] = GPipe.communicate.subs(n, p) + RingAllReduce.communicate.subs(
        {n: g, S: S / p}, simultaneous=True
    )
    step: ClassVar[Expr] = SHARDED_STEP

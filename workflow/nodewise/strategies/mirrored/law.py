"""The law of the step time on devices of one process, for its page. Nothing is fitted to it."""

from dataclasses import dataclass
from typing import ClassVar

from sympy import Expr

from nodewise.predict.law import Parameter, S, n
from nodewise.predict.parts_law import COMPUTE, JITTER, SHARDED_STEP, PartsLaw

COPY = Parameter("mu", "copy_s", "s/B", "line", "summing a byte in memory")


@dataclass(frozen=True)
class Step(PartsLaw):
    """The gradients of the other devices are copied to one device and summed there."""

    title: ClassVar[str] = "Devices of one process"
    source: ClassVar[str] = "a count of the copies to one device"
    parameters: ClassVar[tuple[Parameter, ...]] = (*COMPUTE, *JITTER, COPY)
    communicate: ClassVar[Expr] = (n - 1) * S * COPY.symbol
    step: ClassVar[Expr] = SHARDED_STEP

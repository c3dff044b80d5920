"""Parameter averaging every few steps."""

from dataclasses import dataclass
from typing import ClassVar

from nodewise.predict.law import LAWS, At, PartsLaw, Value, Values, require
from nodewise.predict.laws.ring import RingAllReduce


@LAWS.register
@dataclass(frozen=True)
class ParameterAveraging(PartsLaw):
    """communicate = (2(n−1)·α + 2(n−1)/n·S·β)/τ: a ring all-reduce of the weights every τ steps.

    Nodes wait for each other only then, `period` τ steps after the last time. If the steps of a
    node are independent, such a spell spreads by √τ times what a step does: a step's share of the
    wait is 1/√τ of the wait in every step. A node that is always slower is not covered by that.
    """

    period: float

    name: ClassVar[str] = "averaging"
    title: ClassVar[str] = "Parameter averaging"
    source: ClassVar[str] = (
        "J. Wang and G. Joshi, Adaptive communication strategies to achieve the best error-runtime "
        "trade-off in local-update SGD, SysML 2019, arXiv:1810.08313"
    )

    def __post_init__(self) -> None:
        require(self.period >= 1, "period", "1 or more", self.period)

    def wait_s(self, p: Values, at: At) -> Value:
        """Return the wait of a step that ends with an exchange, over √τ."""
        return super().wait_s(p, at) / self.period**0.5

    def communicate_s(self, p: Values, at: At) -> Value:
        """Return the ring's seconds, shared out over τ steps."""
        return RingAllReduce().communicate_s(p, at) / self.period

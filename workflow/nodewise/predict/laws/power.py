"""The power law."""

from dataclasses import dataclass
from typing import ClassVar

from nodewise.predict.law import LAWS, ONE_NODE, At, Law, Parameter, Value, Values


@LAWS.register
@dataclass(frozen=True)
class PowerLaw(Law):
    """t = a·nᵏ, k ≥ 0: a step never gets shorter by nodes; of a job, T(n) = T(1)·nᵏ⁻¹."""

    name: ClassVar[str] = "power"
    title: ClassVar[str] = "Power law"
    source: ClassVar[str] = "a straight line of logarithms over the nodes"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        ONE_NODE,
        Parameter("exponent", "1", "line", "k: 0 where nodes cost nothing, 1 where they gain none"),
    )

    def step_s(self, p: Values, at: At) -> Value:
        """Return a·nᵏ."""
        return p["one_node_s"] * at.nodes ** p["exponent"]

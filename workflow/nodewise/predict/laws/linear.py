"""The straight line."""

from dataclasses import dataclass
from typing import ClassVar

from nodewise.predict.law import LAWS, ONE_NODE, At, Law, Parameter, Value, Values


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
        Parameter("per_node_s", "s", "line", "k: what each further node adds"),
    )

    def step_s(self, p: Values, at: At) -> Value:
        """Return a + k·(n−1)."""
        return p["one_node_s"] + p["per_node_s"] * (at.nodes - 1)

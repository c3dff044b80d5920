"""Ernest: computing, trees of messages, messages to every node."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nodewise.predict.law import LAWS, At, Law, Parameter, Value, Values


@LAWS.register
@dataclass(frozen=True)
class Ernest(Law):
    """t = θ₀ + θ₁·ln n + θ₂·n: what is computed, trees of messages, messages to every node.

    The original adds a term of data per node, which at one batch per worker is a constant like θ₀.
    It is about a job's stages, of which a step is one. Linear in its coefficients.
    """

    name: ClassVar[str] = "ernest"
    title: ClassVar[str] = "Ernest"
    source: ClassVar[str] = (
        "S. Venkataraman et al., Ernest: Efficient performance prediction for large-scale advanced "
        "analytics, NSDI 2016"
    )
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("constant_s", "s", "line", "θ₀: what does not depend on nodes"),
        Parameter("log_s", "s", "line", "θ₁: a level of a tree, times log₂e"),
        Parameter("per_node_s", "s", "line", "θ₂: what every node adds"),
    )

    def step_s(self, p: Values, at: At) -> Value:
        """Return θ₀ + θ₁·ln n + θ₂·n."""
        return p["constant_s"] + p["log_s"] * np.log(at.nodes) + p["per_node_s"] * at.nodes

"""The pipeline of micro-batches."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from nodewise.predict.law import (
    COMPUTE,
    EXCESS_INPUT,
    LAWS,
    LINK,
    At,
    Floats,
    Parameter,
    PartsLaw,
    Value,
    Values,
    require,
)


@LAWS.register
@dataclass(frozen=True)
class GPipe(PartsLaw):
    """t = (m+n−1)·(c₀ + c₁·b/m) + 2(m+n−2)·(α + a·n·b/m·β): n stages, m micro-batches of n·b/m.

    Stages are equal: each computes c₁/n of an example, and c₀ for a micro-batch. Between two stages
    a micro-batch's activations go forward and its gradients back, `activation_bytes` a an example,
    one after the other: the last of m has m−1 before it at the first cut, and n−1 cuts to pass. The
    pipeline fills and empties for n−1 of the m+n−1 turns, its bubble, told as wait. On one node
    nothing is sent. The payload does not matter.
    """

    micro_batches: int
    activation_bytes: float

    name: ClassVar[str] = "gpipe"
    title: ClassVar[str] = "Pipeline (GPipe)"
    source: ClassVar[str] = (
        "Y. Huang et al., GPipe: Efficient training of giant neural networks using pipeline "
        "parallelism, NeurIPS 2019, arXiv:1811.06965, section 2"
    )
    parameters: ClassVar[tuple[Parameter, ...]] = (*COMPUTE, EXCESS_INPUT, *LINK)

    def __post_init__(self) -> None:
        require(self.micro_batches >= 1, "micro_batches", "1 or more", self.micro_batches)
        require(self.activation_bytes >= 0, "activation_bytes", "0 or more", self.activation_bytes)

    def bubble(self, nodes: ArrayLike) -> Floats:
        """Return the share of turns that a stage idles: (n−1)/(m+n−1)."""
        idle = np.asarray(nodes, dtype=np.float64) - 1
        return np.asarray(idle / (self.micro_batches + idle))

    def compute_s(self, p: Values, at: At) -> Value:
        """Return m·c₀ + c₁·b + d, the seconds that a stage computes."""
        return super().compute_s(p, at) + (self.micro_batches - 1) * p["compute_fixed_s"]

    def wait_s(self, p: Values, at: At) -> Value:
        """Return the seconds of computing that a stage idles in the bubble."""
        return (at.nodes - 1) / self.micro_batches * self.compute_s(p, at)

    def communicate_s(self, p: Values, at: At) -> Value:
        """Return 2(m+n−2)·(α + a·n·b/m·β); 0 on one node."""
        messages = 2 * (self.micro_batches + at.nodes - 2) * (at.nodes > 1)
        sent = self.activation_bytes * at.nodes * at.batch / self.micro_batches
        return messages * (p["latency_s"] + sent * p["seconds_per_byte"])

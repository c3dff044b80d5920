"""The universal scalability law."""

from dataclasses import dataclass
from typing import ClassVar

from nodewise.predict.law import LAWS, ONE_NODE, At, Law, Parameter, Value, Values


@LAWS.register
@dataclass(frozen=True)
class Usl(Law):
    """t = a·(1 + σ(n−1) + κn(n−1)): the universal scalability law.

    Of a job: its speed is n/(1 + σ(n−1) + κn(n−1)) times that of one node. σ is contention for what
    is shared, κ the coherency that every pair of nodes costs: with κ > 0 a job has a best number of
    nodes. With κ = 0 it is Amdahl's law.
    """

    name: ClassVar[str] = "usl"
    title: ClassVar[str] = "USL"
    source: ClassVar[str] = (
        "N. J. Gunther, A general theory of computational scalability based on rational functions, "
        "2008, arXiv:0808.1431"
    )
    parameters: ClassVar[tuple[Parameter, ...]] = (
        ONE_NODE,
        Parameter("contention", "1", "line", "σ: what is serial, as a share of one node's step"),
        Parameter("coherency", "1", "line", "κ: what a pair of nodes costs, as such a share"),
    )

    def step_s(self, p: Values, at: At) -> Value:
        """Return a·(1 + σ(n−1) + κn(n−1))."""
        n = at.nodes
        loss = p["contention"] * (n - 1) + p["coherency"] * (n * (n - 1))
        return p["one_node_s"] * (1 + loss)

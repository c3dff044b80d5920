"""The universal scalability law."""

from nodewise.predict.law import LAWS, Law, Parameter, n, positive
from nodewise.predict.parts_law import ONE_NODE

sigma, kappa = positive("sigma"), positive("kappa")


@LAWS.register
class Usl(Law):
    """t = a·(1 + σ(n−1) + κn(n−1)): the universal scalability law.

    For a job of fixed size, n nodes are n/(1 + σ(n−1) + κn(n−1)) times as fast as one. σ is the
    contention for shared resources. κ is the coherency cost of each pair of nodes: with κ > 0 a job
    has a best number of nodes, and with κ = 0 the law is Amdahl's law.
    """

    name = "usl"
    title = "USL"
    source = (
        "N. J. Gunther, A general theory of computational scalability based on rational functions, "
        "2008, arXiv:0808.1431"
    )
    parameters = (
        ONE_NODE,
        Parameter(
            "sigma", "contention", "1", "line", "what is serial, as a share of one node's step"
        ),
        Parameter("kappa", "coherency", "1", "line", "what a pair of nodes costs, as such a share"),
    )
    step = ONE_NODE.symbol * (1 + sigma * (n - 1) + kappa * n * (n - 1))

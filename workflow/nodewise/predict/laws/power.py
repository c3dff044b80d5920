"""The power law."""

from nodewise.predict.law import LAWS, Law, Parameter, n, positive
from nodewise.predict.parts_law import ONE_NODE

k = positive("k")


@LAWS.register
class PowerLaw(Law):
    """t = a·nᵏ with k ≥ 0: more nodes never make a step shorter. For a job, T(n) = T(1)·nᵏ⁻¹."""

    name = "power"
    title = "Power law"
    source = "a straight line of logarithms over the nodes"
    parameters = (
        ONE_NODE,
        Parameter(
            "k", "exponent", "1", "line", "0 where nodes cost nothing, 1 where they gain none"
        ),
    )
    step = ONE_NODE.symbol * n**k

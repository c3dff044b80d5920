"""Ernest: a constant, a logarithmic and a linear term of the number of nodes."""

import sympy

from nodewise.predict.law import LAWS, Law, Parameter, n, positive

theta_0, theta_1, theta_2 = (positive(f"theta_{i}") for i in range(3))


@LAWS.register
class Ernest(Law):
    """t = θ₀ + θ₁·ln n + θ₂·n: computing, tree-like communication, messages to every node.

    The original has one more term for the data per node, which is constant at one batch per worker
    and so part of θ₀. It models the stages of a job; a step is one such stage. The law is linear in
    its coefficients.
    """

    name = "ernest"
    title = "Ernest"
    source = (
        "S. Venkataraman et al., Ernest: Efficient performance prediction for large-scale advanced "
        "analytics, NSDI 2016"
    )
    parameters = (
        Parameter("theta_0", "constant_s", "s", "model", "what does not depend on nodes"),
        Parameter("theta_1", "log_s", "s", "model", "a level of a tree, times log₂e"),
        Parameter("theta_2", "per_node_s", "s", "model", "what every node adds"),
    )
    step = theta_0 + theta_1 * sympy.log(n) + theta_2 * n

"""Baselines: laws of the number of nodes alone, taken from other fields or other authors.

They know neither the payload nor how nodes exchange data, so their coefficients hold at one batch
per worker. Both were published for a job of fixed size. With steps of n·b examples, the job takes
1/n as many steps on n nodes, so its time is proportional to t(n)/n.
"""

import sympy

from nodewise.predict.law import LAWS, Law, Parameter, n, positive

p, q = positive("p"), positive("q")
theta_0, theta_1, theta_2 = (positive(f"theta_{i}") for i in range(3))


@LAWS.register
class Amdahl(Law):
    """t = p + q·n: p is the parallel part of one node's step, q the serial part.

    For a job of fixed size this is T(n)/T(1) = f + (1 − f)/n, with the serial share f = q/(p + q).
    The law cannot describe nodes that make a job longer.
    """

    name = "amdahl"
    title = "Amdahl"
    source = (
        "G. M. Amdahl, Validity of the single processor approach to achieving large scale "
        "computing capabilities, AFIPS Spring Joint Computer Conference, 1967"
    )
    parameters = (
        Parameter("p", "parallel_s", "s", "model", "of one node's step, what further nodes share"),
        Parameter("q", "serial_s", "s", "model", "of one node's step, what stays serial"),
    )
    step = p + q * n


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

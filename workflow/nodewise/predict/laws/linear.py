"""The straight line."""

from nodewise.predict.law import LAWS, Law, Parameter, n, positive
from nodewise.predict.parts_law import ONE_NODE

k = positive("k")


@LAWS.register
class Linear(Law):
    """t = a + k·(n−1): each further node adds the same time, as if nodes were served in turn.

    This is the simplest baseline. If nodes make a job shorter, it equals Amdahl's law. Unlike
    Amdahl's law, it can also describe nodes that make a job longer (k > a).
    """

    name = "linear"
    title = "Straight line"
    source = "a straight line over the nodes"
    parameters = (
        ONE_NODE,
        Parameter("k", "per_node_s", "s", "line", "what each further node adds"),
    )
    step = ONE_NODE.symbol + k * (n - 1)

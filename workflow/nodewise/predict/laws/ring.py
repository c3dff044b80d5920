"""The ring all-reduce."""

from nodewise.predict.law import LAWS, S, n
from nodewise.predict.parts_law import AllReduce, alpha, beta


@LAWS.register
class RingAllReduce(AllReduce):
    """communicate = 2(n−1)·α + 2(n−1)/n·S·β: a ring all-reduce of the gradient.

    The ring sends 2(n−1) messages of S/n bytes one after another: n−1 to sum, n−1 to spread.

    Example:
        >>> p = dict.fromkeys((c.name for c in RingAllReduce.parameters), 0.0)
        >>> p |= {"compute_per_example_s": 2e-4, "seconds_per_byte": 1 / 58e6}
        >>> RingAllReduce().evaluate(p, nodes=[1, 2, 3], batch=100, payload=5.8e6).round(3).tolist()
        [0.02, 0.12, 0.153]
    """

    name = "ring"
    title = "Ring all-reduce"
    source = (
        "P. Patarasuk and X. Yuan, Bandwidth optimal all-reduce algorithms for clusters of "
        "workstations, Journal of Parallel and Distributed Computing 69(2), 2009"
    )
    communicate = 2 * alpha * (n - 1) + 2 * S * beta * (n - 1) / n

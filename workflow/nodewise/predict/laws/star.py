"""The all-reduce through one driver node."""

from nodewise.predict.law import LAWS, S, n
from nodewise.predict.parts_law import AllReduce, alpha, beta


@LAWS.register
class Star(AllReduce):
    """communicate = 2(n−1)·(α + S·β): one of the nodes, the driver, sums and sends the sum back.

    The driver receives n−1 gradients over its link. When they are summed, it sends the sum to each
    of the n−1 other nodes over the same link.
    """

    name = "star"
    title = "Star, one driver"
    source = (
        "P. Moritz, R. Nishihara, I. Stoica and M. I. Jordan, SparkNet: Training deep networks in "
        "Spark, ICLR 2016, arXiv:1511.06051"
    )
    communicate = 2 * (n - 1) * (alpha + S * beta)

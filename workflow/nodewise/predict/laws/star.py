"""The all-reduce by one driver."""

from nodewise.predict.law import LAWS, S, n
from nodewise.predict.parts_law import AllReduce, alpha, beta


@LAWS.register
class Star(AllReduce):
    """communicate = 2(n−1)·(α + S·β): one of the nodes, the driver, sums and sends the sum back.

    The n−1 gradients all come over the driver's link, and when they are summed the n−1 sums leave
    over it.
    """

    name = "star"
    title = "Star, one driver"
    source = (
        "P. Moritz, R. Nishihara, I. Stoica and M. I. Jordan, SparkNet: Training deep networks in "
        "Spark, ICLR 2016, arXiv:1511.06051"
    )
    communicate = 2 * (n - 1) * (alpha + S * beta)

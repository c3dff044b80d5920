"""The all-reduce through one driver node."""

from nodewise.predict.law import LAWS, Parameter, S, n
from nodewise.predict.parts_law import AllReduce, alpha, beta

TURNS = Parameter(
    "w", "turns_share", "1", "link", "share of sending that waits for receiving", shrink=0.3
)


@LAWS.register
class Star(AllReduce):
    """communicate = (n−1)·(2α + (1 + w)·S·β): one node, the driver, sums and sends the sum back.

    The driver receives n−1 gradients over its link and sends the sum to each of the n−1 other
    nodes. At w = 1 it begins to send when all is summed; at w = 0 it sends each piece of the sum
    while it receives the next one, because a link carries bytes both ways at once.
    """

    name = "star"
    title = "Star, one driver"
    source = (
        "P. Moritz, R. Nishihara, I. Stoica and M. I. Jordan, SparkNet: Training deep networks in "
        "Spark, ICLR 2016, arXiv:1511.06051"
    )
    parameters = (*AllReduce.parameters, TURNS)
    communicate = (n - 1) * (2 * alpha + (1 + TURNS.symbol) * S * beta)

"""The all-reduce over a binomial tree: a reduction followed by a broadcast."""

import sympy

from nodewise.predict.law import LAWS, S, n
from nodewise.predict.laws.halving_doubling import HalvingDoubling
from nodewise.predict.parts_law import AllReduce, alpha, beta


@LAWS.register
class BinomialTree(AllReduce):
    """communicate = 2·log₂n·(α + S·β): sums go up a binomial tree, and the result down again.

    Every message is a whole gradient. The formula is exact for powers of two. For other numbers of
    nodes, implementations need as many rounds as for the next power of two.
    """

    name = "tree"
    title = "Binomial tree"
    source = HalvingDoubling.source
    communicate = 2 * sympy.log(n) / sympy.log(2) * (alpha + S * beta)

"""The all-reduce up and down a binomial tree."""

import sympy

from nodewise.predict.law import LAWS, S, n
from nodewise.predict.laws.halving_doubling import HalvingDoubling
from nodewise.predict.parts_law import AllReduce, alpha, beta


@LAWS.register
class BinomialTree(AllReduce):
    """communicate = 2·log₂n·(α + S·β): sums go up a binomial tree, and the result down again.

    Every round passes whole gradients on. Exact for powers of two; between them a program takes the
    rounds of the next one.
    """

    name = "tree"
    title = "Binomial tree"
    source = HalvingDoubling.source
    communicate = 2 * sympy.log(n) / sympy.log(2) * (alpha + S * beta)

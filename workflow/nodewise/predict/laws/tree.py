"""The all-reduce in a logarithmic number of rounds."""

import sympy

from nodewise.predict.law import LAWS, S, n
from nodewise.predict.parts_law import AllReduce, alpha, beta


@LAWS.register
class Tree(AllReduce):
    """communicate = 2·log₂n·α + 2(n−1)/n·S·β: double binary trees, or halving and doubling.

    Sums need log₂n rounds, and another log₂n rounds return them. Every node sends as many bytes as
    in a ring. The formula is exact for powers of two and interpolates smoothly between them.
    """

    name = "tree"
    aliases = ("halving_doubling",)
    title = "Tree"
    source = (
        "R. Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication "
        "operations in MPICH, International Journal of High Performance Computing Applications "
        "19(1), 2005"
    )
    communicate = 2 * alpha * sympy.log(n) / sympy.log(2) + 2 * S * beta * (n - 1) / n

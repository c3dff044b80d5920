"""The all-reduce by recursive halving and doubling."""

import sympy

from nodewise.predict.law import LAWS, S, n
from nodewise.predict.parts_law import AllReduce, alpha, beta


@LAWS.register
class HalvingDoubling(AllReduce):
    """communicate = 2·log₂n·α + 2(n−1)/n·S·β: recursive halving, then recursive doubling.

    In each of log₂n rounds, a node exchanges half of the data it still has to sum with a partner:
    S/2, S/4, … bytes. Another log₂n rounds return the sums. The formula is exact for powers of two.
    Between them it interpolates smoothly, whereas implementations need additional rounds.
    """

    name = "halving_doubling"
    title = "Halving-doubling"
    source = (
        "R. Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication "
        "operations in MPICH, International Journal of High Performance Computing Applications "
        "19(1), 2005"
    )
    communicate = 2 * alpha * sympy.log(n) / sympy.log(2) + 2 * S * beta * (n - 1) / n

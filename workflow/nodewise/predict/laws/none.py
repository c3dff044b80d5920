"""No exchange: one node, or nodes that do not communicate."""

import sympy

from nodewise.predict.law import LAWS
from nodewise.predict.parts_law import PartsLaw


@LAWS.register
class NoExchange(PartsLaw):
    """communicate = 0: one node, or nodes that do not communicate."""

    name = "none"
    title = "No exchange"
    source = "no communication"
    communicate = sympy.S.Zero

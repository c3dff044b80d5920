"""No exchange: one node, or nodes that do not talk."""

from dataclasses import dataclass
from typing import ClassVar

import sympy
from sympy import Expr

from nodewise.predict.law import LAWS
from nodewise.predict.parts_law import PartsLaw


@LAWS.register
@dataclass(frozen=True)
class NoExchange(PartsLaw):
    """communicate = 0: one node, or nodes that do not talk."""

    name: ClassVar[str] = "none"
    title: ClassVar[str] = "No exchange"
    source: ClassVar[str] = "no communication"
    communicate: ClassVar[Expr] = sympy.S.Zero

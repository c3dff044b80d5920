"""No exchange: one node, or nodes that do not talk."""

from dataclasses import dataclass
from typing import ClassVar

from nodewise.predict.law import LAWS, At, PartsLaw, Value, Values


@LAWS.register
@dataclass(frozen=True)
class NoExchange(PartsLaw):
    """communicate = 0: one node, or nodes that do not talk."""

    name: ClassVar[str] = "none"
    title: ClassVar[str] = "No exchange"
    source: ClassVar[str] = "no communication"

    def communicate_s(self, p: Values, at: At) -> Value:
        """Return 0."""
        return 0.0 * at.nodes

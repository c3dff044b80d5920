"""One process, no communication: the same loop as everywhere, and the base of every speed-up."""

from nodewise.strategies.replica import Strategy

__all__ = ["Strategy"]

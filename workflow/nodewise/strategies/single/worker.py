"""Training in a single process, without communication: the baseline of every speed-up.

It uses the same loop as all other strategies.
"""

from nodewise.strategies.replica import Strategy

__all__ = ["Strategy"]

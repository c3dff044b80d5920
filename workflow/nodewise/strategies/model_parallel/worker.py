"""Model parallelism: every node holds one stage of the model, through which each batch passes."""

from nodewise.strategies.pipeline import Pipeline as Strategy
from nodewise.strategies.pipeline import check

__all__ = ["Strategy", "check"]

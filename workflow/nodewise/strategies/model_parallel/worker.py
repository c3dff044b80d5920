"""Model parallelism: every node holds one stage of the model, and the batch passes through them."""

from nodewise.strategies.pipeline import Pipeline as Strategy

__all__ = ["Strategy"]

"""Hybrid parallelism: groups of nodes form pipelines, which share the global batch.

This is model parallelism within a group and data parallelism between groups.
"""

from nodewise.strategies.pipeline import Pipeline as Strategy
from nodewise.strategies.pipeline import check

__all__ = ["Strategy", "check"]

"""The strategies: one folder each, with a declaration, a worker, a page and diagrams.

To add one, write `__init__.py`, which adds a `Declaration`, and `worker.py`, whose class `Strategy`
is one of `api`. What only exchanges gradients takes `replica.Strategy` and an `Exchange`. Modules
beside the folders are what several strategies share.

This package and the declarations are read where configurations are checked: they must not import
TensorFlow.
"""

from nodewise.strategies.declaration import STRATEGIES

__all__ = ["STRATEGIES"]

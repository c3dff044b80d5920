"""The strategies: one folder each, with a declaration, a worker, a page and diagrams.

This package and the declarations are read where configurations are checked: they must not import
TensorFlow.
"""

from nodewise.strategies.declaration import STRATEGIES

__all__ = ["STRATEGIES"]

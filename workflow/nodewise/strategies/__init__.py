"""The distributed training strategies, one package each.

A strategy's package contains its declaration, a worker, a page and diagrams. To add a strategy,
write `__init__.py`, which registers a `Declaration`, and `worker.py`, whose class `Strategy`
implements the interface in `api`. A strategy that only exchanges gradients can subclass
`replica.Strategy` and pass it an `Exchange`. Modules beside the packages are shared by several
strategies.

This package and the declarations are imported to check configurations: they must not import
TensorFlow.
"""

from nodewise.strategies.declaration import STRATEGIES

__all__ = ["STRATEGIES"]

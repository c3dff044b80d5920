"""Data parallelism in which large dense layers are split over the workers."""

from nodewise.core.exchanges import ACTIVATIONS
from nodewise.strategies.declaration import STRATEGIES, Declaration


def fewer_bytes(inputs: int, outputs: int, *, own: int, nodes: int) -> bool:
    """Return whether splitting a dense layer over `nodes` sends less than its gradient.

    Instead of the gradient of the weights, a worker sends the inputs of its `own` examples, and
    outputs to each other worker.
    """
    return nodes > 1 and own * (inputs + nodes * outputs) < inputs * outputs


STRATEGIES.add(
    "split_dense",
    Declaration(
        module=__name__,
        title="Data parallelism with split dense layers",
        max_nodes=64,
        exchange=ACTIVATIONS,
    ),
)

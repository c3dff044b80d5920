"""Data parallelism in which large dense layers are split over the workers."""

from nodewise.strategies.declaration import STRATEGIES, Declaration


def fewer_bytes(inputs: int, outputs: int, *, own: int, nodes: int) -> bool:
    """Return whether a dense layer that is split over `nodes` sends less than its gradient is.

    A worker sends the inputs of its `own` examples instead of weights, and outputs to each other.
    """
    return nodes > 1 and own * (inputs + nodes * outputs) < inputs * outputs


STRATEGIES.add(
    "split_dense",
    Declaration(
        module=__name__,
        title="Data parallelism with split dense layers",
        max_nodes=64,
        exchange="activations",
    ),
)

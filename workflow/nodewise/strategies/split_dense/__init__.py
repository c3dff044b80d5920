"""Data parallelism in which large dense layers are split over the workers."""

from nodewise.results.model_description import FLOAT32_BYTES
from nodewise.strategies.bytes_sent import Trained, all_reduced, dense_layers
from nodewise.strategies.declaration import STRATEGIES, Declaration, Facts


def fewer_bytes(inputs: int, outputs: int, *, own: int, nodes: int) -> bool:
    """Return whether splitting a dense layer over `nodes` sends less than its gradient.

    Instead of the gradient of the weights, a worker sends the inputs of its `own` examples, and
    outputs to each other worker.
    """
    return nodes > 1 and own * (inputs + nodes * outputs) < inputs * outputs


def _bytes_sent(trained: Trained) -> float | None:
    """Return the bytes of a gradient all-reduce; for split layers, inputs and outputs instead."""
    if not trained.layers:
        return None
    own, nodes = trained.cell.batch, trained.cell.nodes
    sent = trained.payload_bytes
    for _, inputs, outputs in dense_layers(trained.layers):
        if fewer_bytes(inputs, outputs, own=own, nodes=nodes):
            sent += FLOAT32_BYTES * (own * (inputs + nodes * outputs) - inputs * outputs)
    return all_reduced(trained, sent)


STRATEGIES.add(
    "split_dense",
    Declaration(
        module=__name__,
        title="Data parallelism with split dense layers",
        max_nodes=64,
        exchange="activations",
        facts=Facts(
            synchronous="yes, at every split layer",
            holds="its columns of split layers on each worker; the other layers on every worker",
            sends="2(n − 1)/n · (a + S − z)",
            needs="a dense layer with more outputs than a worker has examples",
        ),
        bytes_sent=_bytes_sent,
    ),
)

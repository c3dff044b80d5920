"""Tensor parallelism with DTensor: pairs of consecutive dense layers are split over the nodes."""

from nodewise.models.facts import facts
from nodewise.models.registry import registry
from nodewise.results.model_description import FLOAT32_BYTES
from nodewise.strategies.bytes_sent import Trained, all_reduced, dense_layers
from nodewise.strategies.declaration import STRATEGIES, Declaration, Facts, Options

_BETWEEN_PAIRS = {"Dropout", "BatchNormalization", "ReLU", "LeakyReLU"}


class TensorParallel(Options):
    """Options of tensor parallelism: there are none to choose."""

    def check_training(self, nodes: int, batch: int, model: str | None) -> None:
        if model is not None and not facts(model).dense_pairs:
            allowed = ", ".join(name for name in registry() if facts(name).dense_pairs)
            raise ValueError(
                f"model: {model} has no two dense layers in a row to be split; allowed: {allowed}"
            )


def _bytes_sent(trained: Trained) -> float | None:
    """Return the bytes of summing, for each pair, its outputs and the gradients of its inputs.

    The inputs' gradients are summed only if a layer before the pair is trained. Both are for the
    global batch.
    """
    if not trained.layers:
        return None
    shapes = {
        layer.name: (inputs, outputs) for layer, inputs, outputs in dense_layers(trained.layers)
    }
    sent, before, first = 0, False, None
    for layer in trained.layers:
        if layer.name in shapes and first is not None:
            inputs, _ = shapes[first]
            _, outputs = shapes[layer.name]
            sent += outputs + before * inputs
            first, before = None, True
        elif layer.name in shapes:
            first = layer.name
        elif layer.kind not in _BETWEEN_PAIRS:
            before, first = before or first is not None or layer.trainable > 0, None
    return all_reduced(trained, FLOAT32_BYTES * trained.cell.global_batch * sent)


STRATEGIES.add(
    "tensor_parallel",
    Declaration(
        module=__name__,
        title="Tensor parallelism, DTensor",
        max_nodes=64,
        exchange="activations",
        facts=Facts(
            synchronous="yes, at every split pair",
            holds="a part of split layers on each node; the other layers on every node",
            sends="2(n − 1)/n · a, x times",
            needs="dense layers, two in a row",
        ),
        bytes_sent=_bytes_sent,
        options=TensorParallel,
        whole_batches=True,
    ),
)

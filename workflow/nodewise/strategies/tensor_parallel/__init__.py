"""Tensor parallelism by DTensor: two dense layers in a row are split over the nodes."""

from nodewise.models.registry import registry
from nodewise.strategies.declaration import STRATEGIES, Declaration, Options


class TensorParallel(Options):
    """Of tensor parallelism: nothing can be chosen."""

    def check_training(self, nodes: int, batch: int, model: str | None) -> None:
        if model is not None and not registry()[model].dense_pairs:
            allowed = ", ".join(name for name, entry in registry().items() if entry.dense_pairs)
            raise ValueError(
                f"model: {model} has no two dense layers in a row to be split; allowed: {allowed}"
            )


STRATEGIES.add(
    "tensor_parallel",
    Declaration(
        module=__name__,
        title="Tensor parallelism, DTensor",
        max_nodes=64,
        exchange="activations",
        options=TensorParallel,
        whole_batches=True,
    ),
)

"""Tensor parallelism with DTensor: pairs of consecutive dense layers are split over the nodes."""

from nodewise.core.exchanges import ACTIVATIONS
from nodewise.models.facts import facts
from nodewise.models.registry import registry
from nodewise.strategies.declaration import STRATEGIES, Declaration, Options


class TensorParallel(Options):
    """Options of tensor parallelism: there are none to choose."""

    def check_training(self, nodes: int, batch: int, model: str | None) -> None:
        if model is not None and not facts(model).dense_pairs:
            allowed = ", ".join(name for name in registry() if facts(name).dense_pairs)
            raise ValueError(
                f"model: {model} has no two dense layers in a row to be split; allowed: {allowed}"
            )


STRATEGIES.add(
    "tensor_parallel",
    Declaration(
        module=__name__,
        title="Tensor parallelism, DTensor",
        max_nodes=64,
        exchange=ACTIVATIONS,
        options=TensorParallel,
        whole_batches=True,
    ),
)

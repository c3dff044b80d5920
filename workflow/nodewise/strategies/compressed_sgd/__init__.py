"""Compressed gradients: workers send each other small messages instead of their gradients."""

from typing import Literal

from pydantic import Field

from nodewise.core.cell import MAX_NODES, Extent
from nodewise.core.exchanges import ALL_GATHER
from nodewise.strategies.declaration import STRATEGIES, Declaration, Options


class CompressedSgd(Options):
    """Options of compressed gradients: what a worker sends, and how many workers count at first.

    Attributes:
        method: `threshold` sends the sign of each entry of at least ±`threshold`, `top_k` the
            largest entries, `float16` all entries.
        threshold: the threshold for entries of the mean gradient over the worker's own examples.
        share: the share of entries that `top_k` sends.
        values: the type in which `top_k` sends them.
        warmup_steps: the number of first steps in which only some workers' updates count.
        warmup_nodes: the number of workers whose updates count in these steps.
    """

    method: Literal["threshold", "top_k", "float16"] = "threshold"
    threshold: float = Field(default=0.01, ge=1e-9, le=1e9)
    share: float = Field(default=0.01, gt=0, le=1)
    values: Literal["float16", "float32"] = "float16"
    warmup_steps: int = Field(default=0, ge=0, le=1_000_000)
    warmup_nodes: int = Field(default=1, ge=1, le=MAX_NODES)

    def check(self, nodes: int) -> None:
        for name, method in {"threshold": "threshold", "share": "top_k", "values": "top_k"}.items():
            if name in self.model_fields_set and self.method != method:
                raise ValueError(f"options.{name}: only with method {method}, not {self.method}")
        if "warmup_nodes" in self.model_fields_set and self.warmup_steps == 0:
            raise ValueError("options.warmup_nodes: only with warmup_steps of 1 or more")
        if self.warmup_nodes > nodes:
            raise ValueError(
                f"options.warmup_nodes: at most {nodes}, the nodes; not {self.warmup_nodes}"
            )

    def check_training(self, nodes: int, batch: int, model: str | None, extent: Extent) -> None:
        if extent.steps is not None and self.warmup_steps >= extent.steps:
            raise ValueError(
                f"options.warmup_steps: less than {extent.steps}, the timed steps; "
                f"not {self.warmup_steps}"
            )


STRATEGIES.add(
    "compressed_sgd",
    Declaration(
        module=__name__,
        title="Compressed gradients, all-gather",
        max_nodes=64,
        exchange=ALL_GATHER,
        needs="a connection between any two nodes",
        options=CompressedSgd,
    ),
)

"""The options of the strategies: typed, checked when a configuration is parsed.

This module is read where configurations are checked, so it must not import TensorFlow.
"""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from nodewise.core.cell import MAX_BATCH, MAX_NODES, Extent, Frozen
from nodewise.models.registry import registry

_MAX_PERIOD = 1_000_000


class Options(Frozen):
    """What can be chosen about a strategy: nothing, unless a subclass has fields."""

    @property
    def server_nodes(self) -> int:
        """Nodes that hold parameters, beside those that train."""
        return 0

    def check(self, nodes: int) -> None:
        """See that the options make sense on `nodes` nodes.

        Raises:
            ValueError: they do not; the text names the option and what is allowed.
        """

    def check_training(self, nodes: int, batch: int, model: str | None) -> None:
        """See that a model can be trained so, as far as that is known before it is built.

        Args:
            nodes: on which `check` has found nothing wrong.
            batch: examples per node and step.
            model: one of this project's; None for any other.

        Raises:
            ValueError: it cannot; the text names what is wrong and what is allowed.
        """

    def check_extent(self, extent: Extent) -> None:
        """See that what the options ask for happens while steps are timed.

        Raises:
            ValueError: it does not; the text names the option and what is allowed.
        """


NO_OPTIONS = Options()


class Served(Options):
    """Of strategies with parameter servers: how many, of which each has a part."""

    servers: int = Field(default=1, ge=1, le=MAX_NODES)

    @property
    def server_nodes(self) -> int:
        return self.servers

    def check(self, nodes: int) -> None:
        if self.servers > nodes:
            raise ValueError(f"options.servers: at most {nodes}, the nodes; not {self.servers}")


class AsyncSgd(Served):
    """Of asynchronous training: how staleness is handled.

    With `scale_by_staleness` a gradient's learning rate is divided by its staleness, if above 1.
    With `updates` the servers gather so many gradients and apply their mean, once. With `bound` a
    worker that is more than so many steps ahead of the slowest waits.
    """

    scale_by_staleness: bool = False
    updates: int | None = None
    bound: int | None = Field(default=None, ge=0)

    def check(self, nodes: int) -> None:
        super().check(nodes)
        if self.updates is None or 1 < self.updates < nodes:
            return
        if nodes < 3:
            raise ValueError(f"options.updates: only with 3 or more nodes, not {nodes}")
        raise ValueError(f"options.updates: allowed: 2 to {nodes - 1}, not {self.updates}")


class CompressedSgd(Options):
    """What a worker sends of its gradient, and how many do in the first steps.

    With method threshold: the sign of entries of at least ±`threshold`, in units of the worker's
    own mean gradient. With top_k: the `share` of entries that are largest, as `values`. With
    float16: all. In the first `warmup_steps` steps only `warmup_nodes` workers' updates count.
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

    def check_extent(self, extent: Extent) -> None:
        if extent.steps is not None and self.warmup_steps >= extent.steps:
            raise ValueError(
                f"options.warmup_steps: less than {extent.steps}, the timed steps; "
                f"not {self.warmup_steps}"
            )


class ModelParallel(Options):
    """Of a pipeline: into how many micro-batches the examples of a step are cut; 1 is no pipeline.

    They differ by one example at most.
    """

    micro_batches: int = Field(default=1, ge=1, le=MAX_BATCH)

    @property
    def pipelines(self) -> int:
        """Pipelines side by side, each with as many nodes, and a part of every batch."""
        return 1

    def check_training(self, nodes: int, batch: int, model: str | None) -> None:
        examples = batch * nodes // self.pipelines
        if self.micro_batches > examples:
            raise ValueError(
                f"options.micro_batches: at most {examples}, what a pipeline has of a step with "
                f"batch {batch} on {nodes} nodes; not {self.micro_batches}"
            )
        if model is not None and nodes > registry()[model].stages * self.pipelines:
            stages = registry()[model].stages
            raise ValueError(
                f"nodes: at most {stages * self.pipelines} for {model}, which can be cut into "
                f"{stages} stages; not {nodes}"
            )


class Hybrid(ModelParallel):
    """Of several pipelines: how many, `groups`, into whose stages the nodes are divided."""

    groups: int = Field(default=2, ge=1, le=MAX_NODES)

    @property
    def pipelines(self) -> int:
        return self.groups

    def check(self, nodes: int) -> None:
        if nodes % self.groups:
            allowed = ", ".join(str(n) for n in range(1, nodes + 1) if nodes % n == 0)
            raise ValueError(
                f"options.groups: must divide {nodes}, the nodes: {allowed}; not {self.groups}"
            )


class MultiWorkerMirrored(Options):
    """Of MultiWorkerMirroredStrategy: how the gradients of n workers, S bytes each, are summed.

    In a ring every worker sends 2(n-1)/n·S. In a star worker 0 is the driver and sends (n-1)·S, the
    others S.
    """

    collective: Literal["ring", "star"] = "ring"


def _is_a_period(value: object) -> object:
    if value == "epoch" or (type(value) is int and 1 <= value <= _MAX_PERIOD):
        return value
    raise ValueError(f"must be epoch, or steps: 1 to {_MAX_PERIOD:,}; not {value!r:.80}")


class ParameterAveraging(Options):
    """Of parameter averaging: after how many steps weights are averaged, and what then happens.

    What an optimizer remembers of gradients, such as momentum, is `kept` by each worker, `averaged`
    like the weights, or, with the count of its steps, `reset` to its beginning.
    """

    period: Annotated[
        Annotated[int, Field(ge=1, le=_MAX_PERIOD)] | Literal["epoch"],
        BeforeValidator(_is_a_period),
    ] = 10
    optimizer_state: Literal["kept", "averaged", "reset"] = "kept"

    def check_extent(self, extent: Extent) -> None:
        if extent.steps is None:
            return
        if self.period == "epoch":
            raise ValueError("options.period: epoch only where epochs are timed, not steps")
        if self.period > extent.steps:
            raise ValueError(
                f"options.period: at most {extent.steps}, the timed steps; not {self.period}"
            )


class TensorParallel(Options):
    """Of tensor parallelism: nothing can be chosen."""

    def check_training(self, nodes: int, batch: int, model: str | None) -> None:
        if model is not None and not registry()[model].dense_pairs:
            allowed = ", ".join(name for name, entry in registry().items() if entry.dense_pairs)
            raise ValueError(
                f"model: {model} has no two dense layers in a row to be split; allowed: {allowed}"
            )

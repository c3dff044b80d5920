"""The strategies. One file each, with a class `Strategy`; one line here.

This module is read where configurations are checked, so it must not import TensorFlow.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, Literal

from pydantic import ValidationError

from nodewise.core.cell import Input
from nodewise.core.schema import first_misfit
from nodewise.strategies import horovod_build
from nodewise.strategies.options import (
    AsyncSgd,
    CompressedSgd,
    Hybrid,
    ModelParallel,
    MultiWorkerMirrored,
    Options,
    ParameterAveraging,
    Served,
    TensorParallel,
)

Exchange = Literal[
    "none",
    "devices",  # of one process
    "ring",  # or straight to each, with as many messages and bytes
    "star",  # to one worker and back
    "all-gather",
    "server",
    "averaging",  # a ring, now and then
    "activations",  # of a model that is cut
]


@dataclass(frozen=True)
class StrategyEntry:
    """What is known of a strategy without training: its title, its nodes, its options.

    What follows a comma in its title is a detail that tables and sentences leave out.
    `exchange` is how what was computed is brought together: its formula follows from that. Where
    that can be chosen, an option `collective` says it instead. With `whole_batches` every worker is
    given the whole global batch instead of a part of its own. With `one_process` the nodes are
    devices of one process. `packages` are what it trains with beside TensorFlow; records tell their
    versions.
    """

    title: str
    max_nodes: int
    exchange: Exchange
    options: type[Options] = Options
    whole_batches: bool = False
    one_process: bool = False
    packages: tuple[str, ...] = ()

    @property
    def short_title(self) -> str:
        """The title without what follows a comma."""
        return self.title.partition(",")[0]

    @property
    def nodes(self) -> str:
        """The numbers of nodes that are allowed, in words."""
        return f"1 to {self.max_nodes}" if self.max_nodes > 1 else "1"

    def checked(self, options: dict[str, Any], nodes: int) -> Options:
        """Return `options`, defaults filled in, for a job of `nodes` nodes.

        Raises:
            ValueError: an option or the number of nodes is not allowed; the text names it.
        """
        if not 1 <= nodes <= self.max_nodes:
            raise ValueError(f"nodes: allowed for this strategy: {self.nodes}, not {nodes}")
        known = sorted(self.options.model_fields)
        for name in options:
            if name not in known:
                raise ValueError(f"options.{name}: unknown; allowed: {', '.join(known) or 'none'}")
        try:
            checked = self.options.model_validate(options)
        except ValidationError as error:
            raise ValueError(f"options.{first_misfit(error)}") from error
        checked.check(nodes)
        return checked

    def exchange_of(self, options: Mapping[str, object]) -> str:
        """Return how what was computed is brought together with these `options` of a cell."""
        return str(options.get("collective", self.exchange))

    def fields(self, options: Options, fed: Input) -> dict[str, Any]:
        """Return the fields of a cell that follow from the strategy and its `options`."""
        return {
            "options": options.model_dump(),
            "exchange": self.exchange_of(options.model_dump()),
            "servers": options.server_nodes,
            "one_process": self.one_process,
            "input": "whole" if self.whole_batches else fed,
        }


STRATEGIES = {
    "async_sgd": StrategyEntry(
        "Asynchronous SGD, parameter server", max_nodes=64, exchange="server", options=AsyncSgd
    ),
    "compressed_sgd": StrategyEntry(
        "Compressed gradients, all-gather",
        max_nodes=64,
        exchange="all-gather",
        options=CompressedSgd,
    ),
    "custom_loop": StrategyEntry(
        "Custom training loop, ring all-reduce", max_nodes=64, exchange="ring"
    ),
    "horovod": StrategyEntry(
        "Horovod, ring all-reduce (Gloo)", max_nodes=64, exchange="ring", packages=("horovod",)
    ),
    "hybrid": StrategyEntry(
        "Hybrid parallelism, pipelines in data parallel",
        max_nodes=64,
        exchange="activations",
        options=Hybrid,
        whole_batches=True,
    ),
    "mirrored": StrategyEntry(
        "MirroredStrategy, devices of one process",
        max_nodes=16,
        exchange="devices",
        whole_batches=True,
        one_process=True,
    ),
    "model_parallel": StrategyEntry(
        "Model parallelism",
        max_nodes=64,
        exchange="activations",
        options=ModelParallel,
        whole_batches=True,
    ),
    "mpi": StrategyEntry(
        "MPI, ring all-reduce (MPICH)",
        max_nodes=64,
        exchange="ring",
        packages=("mpi4py", "mpich"),
    ),
    "multi_worker_mirrored": StrategyEntry(
        "MultiWorkerMirroredStrategy",
        max_nodes=64,
        exchange="ring",
        options=MultiWorkerMirrored,
    ),
    "parameter_averaging": StrategyEntry(
        "Parameter averaging, ring all-reduce",
        max_nodes=64,
        exchange="averaging",
        options=ParameterAveraging,
    ),
    "parameter_server": StrategyEntry(
        "ParameterServerStrategy", max_nodes=64, exchange="server", options=Served
    ),
    "single": StrategyEntry("Single process, baseline", max_nodes=1, exchange="none"),
    "split_dense": StrategyEntry(
        "Data parallelism with split dense layers", max_nodes=64, exchange="activations"
    ),
    "tensor_parallel": StrategyEntry(
        "Tensor parallelism, DTensor",
        max_nodes=64,
        exchange="activations",
        options=TensorParallel,
        whole_batches=True,
    ),
}


def check_available(name: str) -> None:
    """Check that this machine has what a strategy needs, before any worker starts.

    Raises:
        NotPermittedError: it has not.
    """
    if name == "horovod":
        horovod_build.check_built()


def load(name: str) -> ModuleType:
    """Import the file of a strategy, and TensorFlow with it.

    Workers are forked after this: the file must start no thread and compute nothing.

    Raises:
        NotPermittedError: this machine has not what the strategy needs.
    """
    return import_module(f"nodewise.strategies.{name}")

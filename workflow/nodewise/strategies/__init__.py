"""The ways of training. One file each, with a class `Strategy`; one line here.

This module is read where configurations are checked, so it must not import TensorFlow.
"""

from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from nodewise.cells import Input
from nodewise.misfits import first_misfit
from nodewise.strategies.options import Options


@dataclass(frozen=True)
class StrategyEntry:
    """What is known of a strategy without training: its title, its nodes, its options.

    With `whole_batches` every worker is given the whole global batch instead of a part of its own.
    With `one_process` the nodes are devices of one process.
    """

    title: str
    max_nodes: int
    min_nodes: int = 1
    options: type[Options] = Options
    whole_batches: bool = False
    one_process: bool = False

    def checked(self, options: dict[str, Any], nodes: int) -> Options:
        """Return `options`, defaults filled in, for a job of `nodes` nodes.

        Raises:
            ValueError: an option or the number of nodes is not allowed; the text names it.
        """
        if not self.min_nodes <= nodes <= self.max_nodes:
            allowed = f"{self.min_nodes} to {self.max_nodes}" if self.max_nodes > 1 else "1"
            raise ValueError(f"nodes: allowed for this strategy: {allowed}, not {nodes}")
        try:
            checked = self.options.model_validate(options)
        except ValidationError as error:
            raise ValueError(f"options.{first_misfit(error)}") from error
        checked.check(nodes)
        return checked

    def fields(self, options: Options, fed: Input) -> dict[str, Any]:
        """Return the fields of a cell that follow from the strategy and its `options`."""
        return {
            "options": options.model_dump(),
            "servers": options.servers,
            "one_process": self.one_process,
            "input": "whole" if self.whole_batches else fed,
        }


STRATEGIES = {
    "horovod": StrategyEntry("Horovod, Gloo", max_nodes=64),
    "mirrored": StrategyEntry(
        "MirroredStrategy, devices of one process",
        max_nodes=16,
        whole_batches=True,
        one_process=True,
    ),
    "multi_worker_mirrored": StrategyEntry("MultiWorkerMirroredStrategy, ring", max_nodes=64),
    "single": StrategyEntry("One process", max_nodes=1),
}


def load(name: str) -> ModuleType:
    """Import the file of a strategy, and TensorFlow with it."""
    return import_module(f"nodewise.strategies.{name}")

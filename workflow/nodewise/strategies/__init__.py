"""The ways of training. One file each, with a class `Strategy`; one line here.

This module is read where configurations are checked, so it must not import TensorFlow.
"""

from dataclasses import dataclass
from importlib import import_module
from types import ModuleType


@dataclass(frozen=True)
class StrategyEntry:
    """What is known of a strategy without training: its title and the most nodes it runs on."""

    title: str
    max_nodes: int


STRATEGIES = {
    "multi_worker_mirrored": StrategyEntry("MultiWorkerMirroredStrategy, ring", max_nodes=64),
    "single": StrategyEntry("One process", max_nodes=1),
}


def load(name: str) -> ModuleType:
    """Import the file of a strategy, and TensorFlow with it."""
    return import_module(f"nodewise.strategies.{name}")

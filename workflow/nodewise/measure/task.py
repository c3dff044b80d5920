"""The task of the processes of a cell."""

from dataclasses import dataclass
from pathlib import Path

from nodewise.cluster.api import Cluster
from nodewise.core.cell import Cell


@dataclass(frozen=True)
class Task:
    """A cell, its nodes and its files. All processes of the cell have the same task.

    Attributes:
        cell: the cell to measure.
        cluster: the nodes that it runs on.
        manifest: the manifest of the dataset.
        weights: the file of pretrained weights; None if weights are random.
    """

    cell: Cell
    cluster: Cluster
    manifest: Path
    weights: Path | None

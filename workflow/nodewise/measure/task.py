"""What the processes of a cell are given to do."""

from dataclasses import dataclass
from pathlib import Path

from nodewise.cluster.api import Cluster
from nodewise.core.cell import Cell


@dataclass(frozen=True)
class Task:
    """A cell, the nodes that it runs on, and its files. The same for every process of the cell.

    `manifest` is the dataset's, `weights` a file of pretrained weights, None for random ones.
    """

    cell: Cell
    cluster: Cluster
    manifest: Path
    weights: Path | None

"""The task of the processes of a cell."""

import secrets
from dataclasses import dataclass, field
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
        token: a secret by which the processes of the cell know each other.
    """

    cell: Cell
    cluster: Cluster
    manifest: Path
    weights: Path | None
    token: str = field(default_factory=lambda: secrets.token_hex(16))

"""Where workers run: start n of them, hear what they say, leave nothing behind."""

from nodewise.cells import Cell, Emulated
from nodewise.clusters.base import Cluster


def cluster_of(cell: Cell) -> Cluster:
    """Return the cluster that a cell asks for, not yet opened."""
    if isinstance(cell.cluster, Emulated):
        from nodewise.clusters import emulated

        return emulated.Emulated(cell.places, cell.cluster)
    from nodewise.clusters import local

    return local.Local(cell.places)

"""Where workers run: start n of them, hear what they say, leave nothing behind."""

from nodewise.cluster.api import Cluster
from nodewise.core.cell import Cell, Emulated


def cluster_of(cell: Cell) -> Cluster:
    """Return the cluster that a cell asks for, not yet opened."""
    settings = cell.machines
    if isinstance(settings, Emulated):
        from nodewise.cluster import emulated

        if cell.one_process:  # one machine as strong as its devices together
            cpu = settings.node.cpu * cell.nodes
            settings = settings.model_copy(
                update={"node": settings.node.model_copy(update={"cpu": cpu})}
            )
        return emulated.Emulated(cell.places, settings)
    from nodewise.cluster import local

    return local.Local(cell.places, cell.nodes if cell.one_process else 1)

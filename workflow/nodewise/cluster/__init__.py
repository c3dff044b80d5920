"""Clusters: start the workers of a cell, receive their messages and clean up at the end.

`kinds` defines the settings of each kind of cluster, and `api` the interface of a cluster.
`process.Job` starts one local process for each worker of a cell. If the workers run on other
hosts, each local process forwards the messages of one worker.
"""

from nodewise.cluster import api
from nodewise.core.cell import Cell


def cluster_of(cell: Cell) -> api.Cluster:
    """Return the cluster that a cell is to be measured on, not yet opened."""
    settings = cell.cluster
    assert isinstance(settings, api.Settings), settings.kind  # noqa: S101 (all kinds are)
    return settings.cluster(cell)

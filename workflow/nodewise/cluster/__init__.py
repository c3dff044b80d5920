"""Where workers run: start n of them, hear what they say, leave nothing behind.

`kinds` has the settings of each kind of cluster, `api` what a cluster offers; `process.run` starts
the worker processes of a cell, on this machine or as stand-ins for those on other hosts.
"""

from nodewise.cluster import api
from nodewise.core.cell import Cell


def cluster_of(cell: Cell) -> api.Cluster:
    """Return the cluster that a cell asks for, not yet opened."""
    settings = cell.cluster
    assert isinstance(settings, api.Settings), settings.kind  # noqa: S101 (all kinds are)
    return settings.cluster(cell)

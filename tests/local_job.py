"""Start the workers of a job on nodes of this machine, as workers of a cell are started."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from nodewise.cluster import api, process
from nodewise.cluster.channel import Channel, Message

Train = Callable[[int, tuple[str, ...]], Any]


def run_workers(
    cluster: api.Cluster, workers: int, train: Train, logs: Path, **hooks: Any
) -> list[Message]:
    """Call `train(rank, addresses)` in each worker, inside its node; return the results by rank."""
    work = partial(_in_node, cluster=cluster, workers=workers, train=train)
    preload = ["nodewise.measure.worker"]
    return process.run(workers, work, logs=logs, time_limit_s=120, preload=preload, **hooks)


def _in_node(
    rank: int, channel: Channel, *, cluster: api.Cluster, workers: int, train: Train
) -> Message:
    from nodewise.measure import node

    node.start_in_node(cluster, rank, channel, workers)
    return train(rank, tuple(cluster.addresses())) or {}

"""TensorFlow's data service: nodes that read and preprocess examples for the nodes that train.

Imports TensorFlow. The first preprocessing node is also the dispatcher, which assigns work to the
others.
"""

import time
from typing import Any

import tensorflow as tf

from nodewise.cluster.api import Cluster, parsed
from nodewise.cluster.channel import Channel
from nodewise.core.cell import Cell
from nodewise.measure.node import idle_through_blocks, start_in_node
from nodewise.measure.task import Task

service = tf.data.experimental.service

_PROTOCOL = "grpc"


def address(cell: Cell, cluster: Cluster) -> str:
    """Return the address of the data service of `cell`; empty if it has none."""
    return f"{_PROTOCOL}://{_dispatcher(cell, cluster)}" if cell.preprocessing_nodes else ""


def serve(task: Task, rank: int, channel: Channel) -> dict[str, Any]:
    """Read and preprocess examples as node `rank`, until the launcher ends this process.

    Meets the other processes like `worker.train_cell`, and also sends `{"event": "ready"}`.

    Returns:
        The CPU seconds of this process during the last block, from "warm" to "timed".
    """
    cell, cluster = task.cell, task.cluster
    start_in_node(cluster, rank, channel, cell.workers)
    dispatcher = _dispatcher(cell, cluster)
    if rank == cell.workers + cell.servers:
        _, port = parsed(dispatcher)
        _RUNNING.append(service.DispatchServer(service.DispatcherConfig(port, _PROTOCOL)))
    host, _ = parsed(cluster.addresses()[rank])
    config = service.WorkerConfig(dispatcher, f"{host}:%port%", protocol=_PROTOCOL)
    _RUNNING.append(service.WorkerServer(config))
    channel.send({"event": "ready", "at": time.monotonic()})
    cluster.limit_link(rank)
    return {"cpu_s": idle_through_blocks(channel)}


_RUNNING: list[object] = []  # keeps servers alive: a server ends when nothing refers to it


def _dispatcher(cell: Cell, cluster: Cluster) -> str:
    return cluster.addresses()[cell.workers + cell.servers]

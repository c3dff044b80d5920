"""TensorFlow's data service: nodes that read and preprocess examples for the nodes that train.

Imports TensorFlow. The first preprocessing node is also the dispatcher, which assigns work to the
others.
"""

from functools import partial

import tensorflow as tf

from nodewise.cluster.api import Cluster, parsed
from nodewise.cluster.channel import Channel
from nodewise.core.cell import Cell
from nodewise.measure.node import serve_in_node
from nodewise.measure.task import Task

service = tf.data.experimental.service

_PROTOCOL = "grpc"


def address(cell: Cell, cluster: Cluster) -> str:
    """Return the address of the data service of `cell`; empty if it has none."""
    return f"{_PROTOCOL}://{_dispatcher(cell, cluster)}" if cell.preprocessing_nodes else ""


def serve(task: Task, rank: int, channel: Channel) -> dict[str, float]:
    """Read and preprocess examples as node `rank`; see `serve_in_node`."""
    return serve_in_node(task, rank, channel, partial(_start, task.cell, task.cluster, rank))


def _start(cell: Cell, cluster: Cluster, rank: int) -> list[object]:
    dispatcher, servers = _dispatcher(cell, cluster), []
    if rank == cell.workers + cell.servers:
        _, port = parsed(dispatcher)
        servers.append(service.DispatchServer(service.DispatcherConfig(port, _PROTOCOL)))
    host, _ = parsed(cluster.addresses()[rank])
    config = service.WorkerConfig(dispatcher, f"{host}:%port%", protocol=_PROTOCOL)
    return [*servers, service.WorkerServer(config)]


def _dispatcher(cell: Cell, cluster: Cluster) -> str:
    return cluster.addresses()[cell.workers + cell.servers]

"""Start a process inside its node, and run nodes that do not train.

Imports TensorFlow.
"""

import json
import os
import time
from collections.abc import Callable

import tensorflow as tf

from nodewise.cluster.api import Cluster
from nodewise.cluster.channel import Channel
from nodewise.measure.task import Task


def start_in_node(
    cluster: Cluster, rank: int, channel: Channel, workers: int, *, any_gpu: bool = False
) -> None:
    """Move this process into its node and set TF_CONFIG for the `workers` that train.

    The process sees the GPUs that the cluster gives it, or with `any_gpu` all GPUs of this host.
    """
    cluster.enter_node(rank)
    channel.meet("placed")
    cluster.join(rank)
    task = {"type": "worker", "index": rank}
    os.environ["TF_CONFIG"] = json.dumps(
        {"cluster": {"worker": cluster.addresses()[:workers]}, "task": task}
    )
    if not any_gpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = cluster.gpus
    compute_with(cluster.threads)


def serve_in_node(
    task: Task, rank: int, channel: Channel, start: Callable[[], object]
) -> dict[str, float]:
    """Run node `rank`, which does not train, until the launcher ends this process.

    Meets the other processes like `worker.train_cell`, and also sends `{"event": "ready"}`.

    Args:
        task: the task of the cell.
        rank: the rank of this process.
        channel: the connection to the launcher.
        start: starts what serves the other nodes, and returns it.

    Returns:
        The CPU seconds of this process during the last block, from "warm" to "timed".
    """
    start_in_node(task.cluster, rank, channel, task.cell.workers)
    _SERVING.append(start())
    channel.send({"event": "ready", "at": time.monotonic()})
    task.cluster.limit_link(rank)
    again, spent = True, 0.0
    while again:
        channel.meet("warm")
        before = time.process_time()
        again = channel.meet("timed")
        spent = time.process_time() - before
    return {"cpu_s": spent}


_SERVING: list[object] = []  # keeps servers alive: one ends when nothing refers to it


def compute_with(threads: int) -> None:
    """Set TensorFlow's number of threads, so that a node is the same for every number of nodes.

    Call it before TensorFlow computes anything.
    """
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(2)

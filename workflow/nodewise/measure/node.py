"""Start a process inside its node, and keep a node that does not train in step.

Imports TensorFlow.
"""

import json
import os
import time

import tensorflow as tf

from nodewise.cluster.api import Cluster
from nodewise.cluster.channel import Channel
from nodewise.core.units import counted


def start_in_node(
    cluster: Cluster, rank: int, channel: Channel, workers: int, *, any_gpu: bool = False
) -> None:
    """Move this process into its node; tell TensorFlow where the `workers` that train are.

    It sees the GPUs that the cluster has for it, or `any_gpu` of this host.
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


def idle_through_blocks(channel: Channel) -> float:
    """Run the idle loop of a node that takes part in barriers but does not train.

    Returns:
        The CPU seconds of this process during the last block.
    """
    again, spent = True, 0.0
    while again:
        channel.meet("warm")
        before = time.process_time()
        again = channel.meet("timed")
        spent = time.process_time() - before
    return spent


def compute_with(threads: int) -> None:
    """Have TensorFlow compute with so many threads: a node is the same for every node count.

    Call it before TensorFlow's first step.
    """
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(2)


def device() -> str:
    """Return what TensorFlow computes with here, in words."""
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        names = [tf.config.experimental.get_device_details(gpu).get("device_name") for gpu in gpus]
        return ", ".join(name or "GPU" for name in names)
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    return f"CPU, {counted(threads, 'thread')}"

"""Moving a process into its node, as a place where TensorFlow computes.

Imports TensorFlow.
"""

import json
import os
import time

import tensorflow as tf

from nodewise.cluster.api import Cluster
from nodewise.cluster.channel import Channel


def join(cluster: Cluster, rank: int, channel: Channel, workers: int) -> None:
    """Move this process into its node; tell TensorFlow where the `workers` that train are."""
    cluster.enter_node(rank)
    channel.meet("placed")
    cluster.join(rank)
    task = {"type": "worker", "index": rank}
    os.environ["TF_CONFIG"] = json.dumps(
        {"cluster": {"worker": cluster.addresses()[:workers]}, "task": task}
    )
    compute_with_one_thread()


def attend(channel: Channel) -> float:
    """Be there, as a node that does not train, for every block of steps.

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


def compute_with_one_thread() -> None:
    """Make this node the same machine for every number of nodes; before TensorFlow's first step."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)

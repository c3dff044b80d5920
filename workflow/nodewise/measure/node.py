"""Start a process inside its node, and keep a node that does not train in step.

Imports TensorFlow.
"""

import json
import os
import time

import tensorflow as tf

from nodewise.cluster.api import Cluster
from nodewise.cluster.channel import Channel


def start_in_node(cluster: Cluster, rank: int, channel: Channel, workers: int) -> None:
    """Move this process into its node; tell TensorFlow where the `workers` that train are."""
    cluster.enter_node(rank)
    channel.meet("placed")
    cluster.join(rank)
    task = {"type": "worker", "index": rank}
    os.environ["TF_CONFIG"] = json.dumps(
        {"cluster": {"worker": cluster.addresses()[:workers]}, "task": task}
    )
    compute_with_one_thread()


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


def compute_with_one_thread() -> None:
    """Limit TensorFlow to one computing thread, so that a node is the same for every node count.

    Call it before TensorFlow's first step.
    """
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)

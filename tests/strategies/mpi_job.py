"""Run as a script: three MPI ranks on nodes of this machine; prints their observations as JSON.

Each rank reports:

    listening        the addresses on which it listens
    waiting_cpu_s    CPU seconds of an all-reduce that waits 1 s for rank 0
"""

import json
import os
import tempfile
import time
from functools import partial
from pathlib import Path

from nodewise.cluster import process
from nodewise.cluster.channel import Channel, Message
from nodewise.cluster.local import Local

NODES = 3


def main(logs: Path) -> None:
    cluster = Local(NODES)
    os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}
    # as under a batch system that has its own process manager
    os.environ["PMIX_NAMESPACE"] = "other"
    with cluster.open():
        work = partial(train, cluster=cluster)
        preload = ["nodewise.measure.worker"]
        job = process.Job(NODES, work, logs=logs, time_limit_s=60, preload=preload)
        print(json.dumps(job.run()))


def train(rank: int, channel: Channel, *, cluster: Local) -> Message:
    import keras
    import numpy as np
    import psutil
    import tensorflow as tf
    from keras import layers

    from nodewise.measure import node
    from nodewise.strategies import api
    from nodewise.strategies.mpi import worker as mpi

    def build() -> keras.Model:
        model = keras.Sequential([keras.Input((4,)), layers.Dense(1000), layers.Dense(2)])
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        return model

    def waiting(strategy: mpi.Strategy, rank: int) -> float:
        strategy.barrier()
        before = time.process_time()
        if rank == 0:
            time.sleep(1)
        total = np.zeros(1000, np.float32)
        mpi.finish(lambda: mpi.MPI.COMM_WORLD.Iallreduce(mpi.MPI.IN_PLACE, total))
        return time.process_time() - before

    node.start_in_node(cluster, rank, channel, NODES)
    job = api.Job(
        rank,
        NODES,
        NODES,
        3,
        build,
        addresses=tuple(cluster.addresses()),
    )
    strategy = mpi.Strategy(job)
    x, y = tf.zeros([1, 4]), tf.zeros([1], tf.int32)
    strategy.step((x, y))
    listening = [
        connection.laddr.ip
        for connection in psutil.Process().net_connections()
        if connection.status == psutil.CONN_LISTEN
    ]
    return {
        "listening": listening,
        "waiting_cpu_s": waiting(strategy, rank),
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as logs:
        main(Path(logs))

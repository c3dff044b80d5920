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
from typing import Any

from training_job import Case

import local_job
from nodewise.cluster.channel import Channel
from nodewise.cluster.local import LocalProcesses

NODES = 3


def main(logs: Path) -> None:
    cluster = LocalProcesses(NODES)
    os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}
    # as under a batch system that has its own process manager
    os.environ["PMIX_NAMESPACE"] = "other"
    with cluster.open():
        print(json.dumps(local_job.run_workers(cluster, NODES, train, logs)))


def train(rank: int, addresses: tuple[str, ...], _: Channel) -> dict[str, Any]:
    import psutil
    import small_models
    import tensorflow as tf

    build = partial(small_models.compiled, "wide", "sgd")
    case = Case("mpi", NODES, "wide")
    strategy = local_job.make_strategy(case, rank, addresses, build, NODES)
    strategy.step((tf.zeros([1, small_models.WIDTH]), tf.zeros([1], tf.int32)))
    listening = [
        connection.laddr.ip
        for connection in psutil.Process().net_connections()
        if connection.status == psutil.CONN_LISTEN
    ]
    strategy.barrier()
    return {"listening": listening, "waiting_cpu_s": waiting_cpu_s(rank)}


def waiting_cpu_s(rank: int) -> float:
    import numpy as np

    from nodewise.strategies.mpi import worker as mpi

    before = time.process_time()
    if rank == 0:
        time.sleep(1)
    total = np.zeros(1000, np.float32)
    mpi.finish(lambda: mpi.MPI.COMM_WORLD.Iallreduce(mpi.MPI.IN_PLACE, total))
    return time.process_time() - before


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as logs:
        main(Path(logs))

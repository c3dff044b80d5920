"""Train the same global batches on workers, two in each emulated machine: `main(out, workers)`.

A single worker runs as an ordinary process of this machine. Worker RANK saves its weights as
OUT/RANK.npz.
"""

from functools import partial
from pathlib import Path

from local_job import run_workers
from nodewise.cluster import api
from nodewise.cluster.emulated import Emulated as Cluster
from nodewise.cluster.kinds.emulated import Emulated
from nodewise.cluster.local import Local

INSIDE, STEPS, GLOBAL_BATCH = 2, 3, 8


def main(out: Path, workers: int) -> None:
    cluster: api.Cluster = Local(1)
    if workers > 1:
        cluster = Cluster(workers, Emulated(devices_per_node=INSIDE))

    def met(name: str, pids: list[int]) -> None:
        if name == "placed":
            cluster.connect(pids)

    with cluster.open():
        train = partial(train_on, workers=workers, out=out)
        run_workers(cluster, workers, train, out, on_meeting=met)


def train_on(rank: int, addresses: tuple[str, ...], *, workers: int, out: Path) -> None:
    import numpy as np
    import tensorflow as tf

    import kinds
    from nodewise.strategies import STRATEGIES
    from nodewise.strategies.api import Job

    own = GLOBAL_BATCH // workers
    x, y = kinds.load("regression")[0]
    batch = tf.TensorSpec((own, *x.shape[1:])), tf.TensorSpec((own, *y.shape[1:]))
    job = Job(
        *(rank, workers, GLOBAL_BATCH, 1, kinds.builder("regression")),
        addresses=addresses,
        batch=batch,
    )
    strategy = STRATEGIES["custom_loop"].worker().Strategy(job)
    for step in range(STEPS):
        rows = slice(step * GLOBAL_BATCH + rank * own, step * GLOBAL_BATCH + (rank + 1) * own)
        strategy.step((tf.constant(x[rows], tf.float32), tf.constant(y[rows], tf.float32)))
    np.savez(out / f"{rank}.npz", *strategy.weights())
    strategy.barrier()  # Peers would fail if a worker ended before they are done.

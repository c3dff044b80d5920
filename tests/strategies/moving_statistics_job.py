"""Train a model with batch normalisation on two workers that have different examples.

Each worker saves the following files in OUT/STRATEGY:

    initial~RANK.npz     the weights before training
    dropped~RANK.npz     two dropout masks, and the first mask after the state was restored
    threads~RANK.json    how many threads MORE_STEPS of its steps left behind
    before~RANK.npz      moving statistics before the workers agree
    after~RANK.npz       moving statistics after they agree
    logits~RANK.npy      its logits for the same input, after they agree
"""

import json
from functools import partial
from pathlib import Path

from compiled import compiled
from local_job import run_workers
from nodewise.cluster.local import Local

NODES, BATCH = 2, 8
MORE_STEPS = 40
MASK = 200  # units of a dropout mask


def main(out: Path, names: list[str]) -> None:
    cluster = Local(NODES)
    with cluster.open():
        for strategy in names:
            (out / strategy).mkdir()
            work = partial(train, strategy=strategy, out=out / strategy)
            run_workers(cluster, NODES, work, out / strategy)


def train(rank: int, addresses: tuple[str, ...], *, strategy: str, out: Path) -> None:
    import keras
    import numpy as np
    import tensorflow as tf
    from keras import layers

    from nodewise.strategies import STRATEGIES, api

    def build() -> keras.Model:
        return keras.Sequential(
            [
                *(keras.Input((4,)), layers.Dense(3), layers.BatchNormalization()),
                *(layers.Dropout(0.1), layers.Dense(2)),
            ]
        )

    options = STRATEGIES[strategy].checked({}, NODES)
    job = api.Job(
        rank,
        NODES,
        NODES * BATCH,
        3,
        compiled(build, keras.optimizers.SGD),
        options=options,
        addresses=addresses,
    )
    trained = STRATEGIES[strategy].worker().Strategy(job)
    initial = trained.state()
    dropout = trained.model.layers[2]
    masks = [dropout(tf.ones([1, MASK]), training=True).numpy() for _ in range(2)]
    trained.restore(initial)
    again = dropout(tf.ones([1, MASK]), training=True).numpy()
    trained.restore(initial)
    np.savez(out / f"dropped~{rank}.npz", *masks, again)
    np.savez(out / f"initial~{rank}.npz", *trained.weights())
    random = np.random.default_rng(rank)
    x = tf.constant(random.normal(rank, 1, (BATCH, 4)), tf.float32)
    y = tf.constant(random.integers(0, 2, BATCH))
    for _ in range(3):
        trained.step((x, y))
    threads = count_threads()
    for _ in range(MORE_STEPS):
        trained.step((x, y))
    grown = count_threads() - threads
    (out / f"threads~{rank}.json").write_text(json.dumps(grown))
    statistics = api.moving_statistics(trained.model)
    np.savez(out / f"before~{rank}.npz", *[v.numpy() for v in statistics])
    trained.agree()
    np.savez(out / f"after~{rank}.npz", *[v.numpy() for v in statistics])
    logits = trained.model(tf.ones([1, 4]), training=False)
    np.save(out / f"logits~{rank}.npy", logits.numpy())


def count_threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))

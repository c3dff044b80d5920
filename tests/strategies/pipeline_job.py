"""Train small models in stages and save what each worker observed.

`main(out, cases)` trains each case: its strategy, nodes, model (a function below), options, and the
worker that ends or fails in the middle, if there is one. All workers of a case train STEPS steps on
the same global batches, or on their parts of them, and then agree. Each worker saves in OUT/CASE:

    model~RANK.npz     the weights, then the moving statistics
    seen~RANK.json     the loss of each step, the strategy's observations and the bytes on the wire;
                       from before the workers agree, a digest of the weights, the moving statistics
                       and the seeds of dropout; how many threads MORE_STEPS steps leave behind

If a case fails, OUT/CASE/failure.txt says why.
"""

import json
import os
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

from compiled import compiled
from local_job import run_workers
from nodewise.cluster import process
from nodewise.cluster.local import Local
from nodewise.core.errors import RefusedError
from nodewise.strategies import STRATEGIES

STEPS, GLOBAL_BATCH = 6, 24
MORE_STEPS = 40
NAP_S = 0.004  # per example, in the model `slow`


class Case(NamedTuple):
    """What a job trains; `leaves` and `fails` are ranks of workers that do so, or None."""

    strategy: str
    nodes: int
    model: str
    options: dict[str, int]
    leaves: int | None = None
    fails: int | None = None


def main(out: Path, cases: dict[str, Case]) -> None:
    cluster = Local(max(case.nodes for case in cases.values()))
    with cluster.open():
        for name, case in cases.items():
            (out / name).mkdir(parents=True)
            try:
                work = partial(train_on, case=case, out=out / name)
                run_workers(cluster, case.nodes, work, out / name)
            except (process.WorkerError, RefusedError) as error:
                (out / name / "failure.txt").write_text(str(error))


def train_on(rank: int, addresses: tuple[str, ...], *, case: Case, out: Path) -> None:
    import keras
    import numpy as np
    import tensorflow as tf
    from keras import layers

    from nodewise.measure.traffic import traffic
    from nodewise.strategies import api

    def normalised() -> keras.Model:
        """Layers that depend on the whole batch or on random numbers, and residual blocks."""
        x = block = keras.Input((16,))
        for _ in range(2):
            inside = layers.BatchNormalization()(layers.Dense(16, activation="relu")(block))
            block = layers.Add()([block, inside])
        blocks = keras.Model(x, block)
        head = [layers.Dropout(0.3), layers.Dense(8), layers.BatchNormalization(), layers.Dense(4)]
        return keras.Sequential([keras.Input((16,)), layers.Dense(16), blocks, *head])

    def frozen() -> keras.Model:
        """First layers that are not trained, and a last one without weights."""
        still = [layers.Dense(16), layers.BatchNormalization(), layers.Dense(16)]
        for layer in still:
            layer.trainable = False
        trained = [layers.Dense(16), layers.ReLU(), layers.Dense(4), layers.Rescaling(2.0)]
        return keras.Sequential([keras.Input((16,)), *still, *trained])

    def nap(x: tf.Tensor) -> tf.Tensor:
        """Sleep for each example."""
        slept = tf.py_function(lambda n: time.sleep(NAP_S * int(n)), [tf.shape(x)[0]], [])
        with tf.control_dependencies([slept]):
            return tf.identity(x)

    def slow() -> keras.Model:
        """Two stages that take equally long on any machine."""
        stages = [[layers.Activation(nap), layers.Dense(16)] for _ in range(2)]
        return keras.Sequential([keras.Input((16,)), *stages[0], *stages[1]])

    def embedded() -> keras.Model:
        """An embedding, whose gradient has only some rows."""
        first = [layers.Rescaling(1.0), layers.Embedding(8, 8), layers.Flatten()]
        return keras.Sequential([keras.Input((16,)), *first, layers.Dense(8), layers.Dense(4)])

    def wide() -> keras.Model:
        """A layer of many weights in the middle; built layer by layer, as many models are."""
        model = keras.Sequential([keras.Input((16,)), layers.Dense(256, activation="tanh")])
        model.add(layers.Dense(96, activation="relu"))
        model.add(layers.Dense(4))
        return model

    random = np.random.default_rng(3)
    x = random.normal(size=(STEPS, GLOBAL_BATCH, 16)).astype(np.float32)
    if case.model == "embedded":
        x = np.floor(np.abs(x)).clip(0, 7)
    y = random.integers(0, 4, (STEPS, GLOBAL_BATCH))
    builds = (normalised, frozen, slow, embedded, wide)
    entry = STRATEGIES[case.strategy]
    job = api.Job(
        rank,
        case.nodes,
        GLOBAL_BATCH,
        3,
        compiled(
            {build.__name__: build for build in builds}[case.model],
            lambda: keras.optimizers.SGD(0.05, momentum=0.9),
        ),
        options=entry.checked(case.options, case.nodes),
        addresses=addresses[: case.nodes],
    )
    trained = entry.worker().Strategy(job)
    whole = entry.whole_batches or case.nodes == 1
    rows = np.array_split(np.arange(GLOBAL_BATCH), 1 if whole else case.nodes)
    own = rows[0 if whole else rank]
    batches = [(tf.constant(a[own]), tf.constant(b[own])) for a, b in zip(x, y, strict=True)]
    trained.step(batches[0])  # This traces the step.
    trained.barrier()
    trained.observations()
    losses, wire = [], traffic()
    trained.barrier()  # Nobody sends before all workers have read their counters.
    for step, batch in enumerate(batches):
        if step == STEPS // 2:
            if rank == case.leaves:
                os._exit(7)
            if rank == case.fails:
                raise ArithmeticError("of itself")
        trained.model.reset_metrics()
        losses.append(api.plain(trained.step(batch)).get("loss"))
    observed = trained.observations()
    trained.barrier()
    after = traffic()
    statistics = api.moving_statistics(trained.model)
    seen = {
        "losses": losses,
        "observed": observed,
        "sent": after.sent - wire.sent,
        "received": after.received - wire.received,
        "weights": trained.weights_sha256(),
        "statistics": [v.numpy().tolist() for v in statistics],
        "seeds": [v.numpy()[0].item() for v in api.seeds(trained.model)],
    }
    trained.agree()
    np.savez(out / f"model~{rank}.npz", *trained.weights(), *[v.numpy() for v in statistics])
    if not whole:
        threads = len([*Path("/proc/self/task").iterdir()])
        for _ in range(MORE_STEPS):
            trained.step(batches[0])
        seen["more_threads"] = len([*Path("/proc/self/task").iterdir()]) - threads
    (out / f"seen~{rank}.json").write_text(json.dumps(seen))

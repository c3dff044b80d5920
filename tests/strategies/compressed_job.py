"""Train with compressed gradients on three workers and save the results.

`main(what, out, options)` trains once with each value of `options`, which are given by label.
Worker RANK saves OUT/LABEL~RANK.npz. `what` selects the model and the data:

    linear       a model whose gradient is the mean of its examples; workers have different numbers
                 of examples
    pictures     the perceptron for Fashion-MNIST on OUT/pictures.npz
    infinite     like linear, but an example of worker 1 is not finite
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from compiled import compiled
from local_job import run_workers
from nodewise.cluster.local import Local
from nodewise.strategies import STRATEGIES

NODES, STEPS = 3, 20
EXAMPLES = (5, 4, 3)  # examples of each worker in a step, in models with unequal parts
INPUTS, RATE = 400, 0.5
# Keep strategies: closed connections would take their byte counts with them while others count.
KEPT = []


def main(what: str, out: Path, options: dict[str, dict[str, Any]]) -> None:
    cluster = Local(NODES)
    with cluster.open():
        run_workers(cluster, NODES, partial(train, what=what, out=out, options=options), out)


def train(rank, addresses, *, what, out, options):
    for label, chosen in options.items():
        checked = STRATEGIES["compressed_sgd"].checked(chosen, NODES)
        saved = WORK[what](rank, checked, addresses, out)
        np.savez(out / f"{label}~{rank}.npz", **saved)


def inputs() -> np.ndarray:
    """Return the inputs of all workers, (steps, examples, inputs)."""
    return np.random.default_rng(7).normal(1, 1, (STEPS, sum(EXAMPLES), INPUTS))


def linear(rank, options, addresses, out, given=None):
    import keras
    import tensorflow as tf
    from keras import layers

    from nodewise.strategies import api
    from nodewise.strategies.compressed_sgd import worker as compressed_sgd

    def build():
        return keras.Sequential([keras.Input((INPUTS,)), layers.Dense(1, use_bias=False)])

    trained = compressed_sgd.Strategy(
        api.Job(
            rank, NODES, sum(EXAMPLES), 3,
            compiled(build, lambda: keras.optimizers.SGD(RATE), lambda y, outputs: outputs[:, 0]),
            options=options, addresses=addresses,
        )
    )  # fmt: skip
    rows = np.split(np.arange(sum(EXAMPLES)), np.cumsum(EXAMPLES)[:-1])[rank]
    x = tf.constant((inputs() if given is None else given)[:, rows], tf.float32)
    y = tf.zeros(len(rows), tf.int32)
    initial, seen = trained.state(), [trained.weights()[0]]
    for step in x:
        trained.step((step, y))
        seen.append(trained.weights()[0])
    residual = trained.state()[-2]
    trained.restore(initial)
    for step in x:
        trained.split_step((step, y))
    again = trained.split_weights()[0]
    return {"weights": np.squeeze(seen), "residual": residual, "again": np.squeeze(again)}


def infinite(rank, options, addresses, out):
    given = inputs()
    given[3, EXAMPLES[0]] = np.inf
    return linear(rank, options, addresses, out, given)


def pictures(rank, options, addresses, out):
    import tensorflow as tf

    from nodewise.measure.traffic import traffic
    from nodewise.models import registry
    from nodewise.strategies import api
    from nodewise.strategies.compressed_sgd import worker as compressed_sgd

    module = registry.load("fashion_mlp")
    with np.load(out / "pictures.npz") as data:
        x, y = (array.reshape(STEPS, NODES, -1, *array.shape[1:]) for array in data.values())
    job = api.Job(
        rank, NODES, NODES * x.shape[2], 3, module.build,
        options=options, addresses=addresses,
    )  # fmt: skip
    trained = compressed_sgd.Strategy(job)
    KEPT.append(trained)
    before, losses = traffic().sent, []
    for step in range(STEPS):
        trained.model.reset_metrics()
        logs = trained.step((tf.constant(x[step, rank]), tf.constant(y[step, rank])))
        losses.append(float(logs["loss"]))
    return {
        "sent": traffic().sent - before,
        "counted": trained.observations()["bytes_counted"],
        "losses": losses,
        "weights": flat(trained),
    }


def flat(trained):
    return np.concatenate([array.ravel() for array in trained.weights()])


WORK: dict[str, Callable[..., dict[str, Any]]] = {
    "linear": linear,
    "pictures": pictures,
    "infinite": infinite,
}

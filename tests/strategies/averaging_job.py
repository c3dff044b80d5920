"""Train with parameter averaging on three workers and save the results.

`main(out, cases)` trains each of `cases`, given as label -> (optimizer, options), on unequal parts
(17, 17 and 16 examples) of the same global batches. Worker RANK saves OUT/LABEL~RANK.npz:

    weights, memory          after each step: the weights, and the optimizer's momentum
    sent                     bytes sent in each step
    agreed                   the weights after the workers agreed
    split, times             the weights after as many steps in the split form, and their times

OUT/single.npz has the weights after each step of one process with plain SGD.
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from compiled import compiled
from local_job import run_workers
from nodewise.cluster.local import Local
from nodewise.strategies import STRATEGIES

NODES, STEPS, STEPS_PER_EPOCH, EXAMPLES, INPUTS = 3, 10, 5, 50, 20
WARM_UP = 3


def main(out: Path, cases: dict[str, tuple[str, dict[str, Any]]]) -> None:
    cluster = Local(NODES)
    with cluster.open():
        for label, (optimizer, options) in cases.items():
            # Each case has new workers: a second ring would break exchanges over the first one.
            train = partial(save, out=out, label=label, optimizer=optimizer, options=options)
            run_workers(cluster, NODES, train, out)
        run_workers(cluster, 1, partial(alone, out=out), out)


def save(rank, addresses, *, out, label, optimizer, options):
    np.savez(out / f"{label}~{rank}.npz", **trained(rank, optimizer, options))


def alone(rank, addresses, *, out):
    np.savez(out / "single.npz", weights=one_process())


def build():
    import keras
    from keras import layers

    return keras.Sequential(
        [keras.Input((INPUTS,)), layers.Dense(2000, activation="tanh"), layers.Dense(10)]
    )


def make_optimizer(name):
    import keras

    return {
        "sgd": lambda: keras.optimizers.SGD(0.1),
        "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    }[name]


def batches(rows):
    import tensorflow as tf

    random = np.random.default_rng(7)
    x = random.normal(0, 1, (STEPS, EXAMPLES, INPUTS)).astype(np.float32)
    y = random.integers(0, 10, (STEPS, EXAMPLES))
    return [(tf.constant(a[rows]), tf.constant(b[rows])) for a, b in zip(x, y, strict=True)]


def flat(variables):
    return np.concatenate([np.ravel(v) for v in variables]) if variables else np.zeros(0)


def trained(rank, optimizer, options):
    from nodewise.measure.traffic import traffic
    from nodewise.strategies import api
    from nodewise.strategies.parameter_averaging import worker as parameter_averaging

    job = api.Job(
        rank, NODES, EXAMPLES, 3, compiled(build, make_optimizer(optimizer)),
        options=STRATEGIES["parameter_averaging"].checked(options, NODES),
        steps_per_epoch=STEPS_PER_EPOCH,
    )  # fmt: skip
    strategy = parameter_averaging.Strategy(job)
    mine = batches(np.array_split(np.arange(EXAMPLES), NODES)[rank])
    initial = strategy.state()
    for batch in mine[:WARM_UP]:
        strategy.step(batch)
    strategy.restore(initial)
    saved: dict[str, list[np.ndarray]] = {"weights": [], "memory": []}
    strategy.barrier()
    sent = [traffic().sent]
    for batch in mine:
        strategy.step(batch)
        strategy.barrier()  # A worker's last bytes may leave shortly after its own step has ended.
        sent.append(traffic().sent)
        saved["weights"].append(flat(strategy.weights()))
        memory = getattr(strategy.model.optimizer, "momentums", None) or []
        saved["memory"].append(flat([variable.numpy() for variable in memory]))
    strategy.agree()
    agreed = flat(strategy.weights())
    strategy.restore(initial)
    times = [strategy.split_step(batch) for batch in mine]
    return saved | {
        "sent": np.diff(sent),
        "agreed": agreed,
        "split": flat(strategy.split_weights()),
        "times": times,
        "replicas_agree": strategy.replicas_agree,
    }


def one_process():
    from nodewise.strategies import api
    from nodewise.strategies.single import worker as single

    job = api.Job(0, 1, EXAMPLES, 3, compiled(build, make_optimizer("sgd")))
    strategy = single.Strategy(job)
    weights = []
    for batch in batches(slice(None)):
        strategy.step(batch)
        weights.append(flat(strategy.weights()))
    return weights

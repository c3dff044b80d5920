"""Run as a process: examples per second of our loop and of Keras' `fit`, one worker, one core.

    python keras_fit.py MODEL ROUNDS

Prints one JSON object: ways, and for each its examples per second, round by round. In every round
all ways train as many steps in one process, in a random order. `fit` is what anyone calls after
`compile`, which on a CPU too lets XLA compile the step; "fit, no XLA" is told not to. Of `fit` the
second epoch of a call counts: what it prepares before the first is not held against it.
"""

import json
import random
import sys
import tempfile
import time
from pathlib import Path

from same_work import SEED, manifest_of

from nodewise.clusters import machine, processes
from nodewise.clusters.local import Local
from nodewise.runner import settle_environment

FIT_BATCH, STEPS, TIME_LIMIT_S = 64, 100, 900
OURS, FIT, PLAIN_FIT = "custom_loop", "fit", "fit, no XLA"


def main(model: str, rounds: int) -> None:
    """Measure and print."""
    settle_environment()
    with (
        machine.to_itself(lambda: None),
        (cluster := Local(1)).open(),
        tempfile.TemporaryDirectory() as logs,
    ):
        (rates,) = processes.run(
            1,
            lambda rank, channel: measure(cluster, channel, model, rounds),
            logs=Path(logs),
            time_limit_s=TIME_LIMIT_S,
        )
    print(json.dumps(rates))


def measure(
    cluster: Local, channel: processes.Channel, model: str, rounds: int
) -> dict[str, list[float]]:
    from nodewise import datasets, models, places

    places.join(cluster, 0, channel, 1)
    module, data = models.load(model), datasets.load(manifest_of(model))
    ways = {
        OURS: our_loop(module, data, model, cluster.addresses()),
        FIT: keras_fit(module, data, jit_compile="auto"),
        PLAIN_FIT: keras_fit(module, data, jit_compile=False),
    }
    for train in ways.values():
        train()  # traces
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name in random.sample(list(ways), len(ways)):
            rates[name].append(STEPS * FIT_BATCH / ways[name]())
    return rates


def our_loop(module, data, model: str, addresses: list[str]):
    """Return what trains some steps as a cell does, pipeline and all, and returns their seconds."""
    from nodewise import batches, strategies
    from nodewise.cells import Cell, Extent
    from nodewise.cells import Local as OneCore
    from nodewise.recipes import Recipe
    from nodewise.strategies.base import Job

    cell = Cell(
        study="nodewise",
        experiment="bench",
        model=model,
        dataset=data.manifest.dataset,
        strategy=OURS,
        cluster=OneCore(),
        batch=FIT_BATCH,
        nodes=1,
        repeat=0,
        extent=Extent(steps=STEPS),
        seed=SEED,
        time_limit_s=TIME_LIMIT_S,
    )
    strategy = strategies.load(OURS).Strategy(
        Job(0, 1, FIT_BATCH, SEED, module.build, module.optimizer, addresses=tuple(addresses))
    )
    recipe = Recipe(module.build, module.optimizer)
    stream = batches.batches(cell, data, recipe, 0, warm_up=0)

    def train() -> float:
        return sum(sum(done.step_s) for done in strategy.train(stream, STEPS))

    return train


def keras_fit(module, data, *, jit_compile: bool | str):
    """Return what lets `fit` train some steps and returns their seconds."""
    import keras
    import numpy as np

    model = module.build()
    model.compile(
        module.optimizer(),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],  # as our loop counts right answers
        jit_compile=jit_compile,
    )
    x, y = np.array(data.x_train[: STEPS * FIT_BATCH]), np.array(data.y_train[: STEPS * FIT_BATCH])

    class Epochs(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs=None) -> None:
            self.began = time.perf_counter()

        def on_epoch_end(self, epoch: int, logs=None) -> None:
            self.seconds = time.perf_counter() - self.began

    def train() -> float:
        clock = Epochs()
        model.fit(x, y, batch_size=FIT_BATCH, epochs=2, verbose=0, callbacks=[clock])
        return clock.seconds

    return train


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

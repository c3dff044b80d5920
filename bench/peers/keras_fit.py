"""Compare examples per second of our loop and of Keras' `fit`, on one core. Run as a process.

    python keras_fit.py MODEL ROUNDS

Prints one JSON object with, for each way, its examples per second in each round. In every round all
ways train the same number of steps, one after the other on the same core, in a random order.

- `fit` is what users call after `compile`, which lets XLA compile the step, even on a CPU.
- "no XLA" forbids that.
- "memory kept" keeps the memory that a step frees, as our workers do, and runs in the same process
  as ours. By default `fit` does not keep it.
- A "bare step" is the cheapest possible one: loss, gradient and update, without the model's
  `train_step` and its metrics.

Only the second epoch of a call of `fit` counts, so that preparations before the first are not
counted. Images that have to be resized are resized before.
"""

import ctypes
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from same_work import SEED, manifest_of

from nodewise.cluster import lock, process
from nodewise.cluster.channel import Channel
from nodewise.cluster.local import LocalProcesses
from nodewise.measure.environment import settle_environment

if TYPE_CHECKING:
    from nodewise.data import Dataset
    from nodewise.models.training import Recipe

TIME_LIMIT_S = 3600
BATCH_AND_STEPS = {  # chosen so that a round of a large model takes a minute
    "mnist_cnn": (64, 30),
    "cifar10_cnn": (64, 30),
    "resnet50": (8, 6),
    "densenet121": (8, 6),
    "bert_base": (4, 4),
}
USUAL = (64, 100)
OURS = "custom_loop"
BARE = "custom_loop, bare step"
WAYS = [OURS, BARE, "fit", "fit, no XLA", "fit, memory kept"]
KEEP_MEMORY = (OURS, BARE, "fit, memory kept")
_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8  # of malloc.h


def main(model: str, rounds: int) -> None:
    """Measure and print the rates."""
    settle_environment(keep_memory=False)
    with (
        lock.exclusive_machine(),
        (cluster := LocalProcesses(1)).open(),
        tempfile.TemporaryDirectory() as logs,
    ):
        parts = process.Job(
            2,
            partial(measure, cluster=cluster, model=model, rounds=rounds),
            logs=Path(logs),
            time_limit_s=TIME_LIMIT_S,
        ).run()
    print(json.dumps({way: rates for part in parts for way, rates in part.items()}))


def measure(
    rank: int, channel: Channel, *, cluster: LocalProcesses, model: str, rounds: int
) -> dict[str, list[float]]:
    """Train in turns with the other worker; return the rates of the ways that this worker trains.

    Rank 0 keeps the memory that a step frees.
    """
    from nodewise import data as datasets
    from nodewise.measure.node import start_in_node
    from nodewise.models import registry

    keep_memory = rank == 0
    if keep_memory:
        _keep_memory()
    start_in_node(cluster, 0, channel, 1)
    module, data = registry.load(model), datasets.load(manifest_of(model))
    batch, steps = BATCH_AND_STEPS.get(model, USUAL)
    ways = {}
    for way in WAYS:
        if (way in KEEP_MEMORY) != keep_memory:
            continue
        if way in (OURS, BARE):
            recipe = recipe_of(module, bare=way == BARE)
            places = cluster.addresses()
            ways[way] = our_loop(recipe, data, model, places, batch=batch, steps=steps)
        else:
            compiled = False if "no XLA" in way else "auto"
            ways[way] = keras_fit(module, data, batch, steps, jit_compile=compiled)
    # untimed, and after all models are built: building one sets the seed, after which TensorFlow
    # prepares all functions anew
    for train in ways.values():
        train()
    rates: dict[str, list[float]] = {way: [] for way in ways}
    chance = random.Random(SEED)  # both workers use the same order
    for turn in range(rounds):
        for way in chance.sample(WAYS, len(WAYS)):
            channel.meet(f"{turn} {way}")
            if way in ways:
                rates[way].append(steps * batch / ways[way]())
    channel.meet("done")
    return rates


def _keep_memory() -> None:
    """Set for this process what `MALLOC_TRIM_THRESHOLD_` and similar variables set for our workers.

    glibc reads these variables only when a program starts, and both workers are forked from one
    program.
    """
    libc = ctypes.CDLL(None)
    for parameter, value in ((_M_TRIM_THRESHOLD, 2**31 - 1), (_M_MMAP_MAX, 0), (_M_ARENA_MAX, 1)):
        libc.mallopt(parameter, value)


def recipe_of(module: ModuleType, *, bare: bool) -> "Recipe":
    """Return how to build and feed a model; `bare` replaces its `train_step`."""
    import tensorflow as tf

    from nodewise.models.training import Recipe

    def build() -> Any:
        model = module.build()

        def train_step(batch: Any) -> dict[str, Any]:
            x, y = batch
            with tf.GradientTape() as tape:
                loss = model.loss(y, model(x, training=True))
            gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
            model.optimizer.apply(gradients, model.trainable_variables)
            return {"loss": loss}

        if bare:
            model.train_step = train_step
        return model

    return Recipe(build, getattr(module, "preprocess", Recipe.preprocess))


def our_loop(
    recipe: "Recipe", data: "Dataset", model: str, addresses: list[str], *, batch: int, steps: int
) -> Callable[[], float]:
    """Return a function that trains some steps like a cell and returns their seconds.

    The steps include the input pipeline.
    """
    from nodewise.cluster.kinds.local import Local
    from nodewise.core.cell import Cell, Extent
    from nodewise.data import pipeline
    from nodewise.strategies import STRATEGIES
    from nodewise.strategies.api import Job

    cell = Cell(
        study="nodewise",
        experiment="bench",
        model=model,
        dataset=data.manifest.dataset,
        strategy=OURS,
        cluster=Local(),
        batch=batch,
        nodes=1,
        repeat=0,
        extent=Extent(steps=steps),
        seed=SEED,
        time_limit_s=TIME_LIMIT_S,
    )
    strategy = (
        STRATEGIES[OURS]
        .worker()
        .Strategy(Job(0, 1, batch, SEED, recipe.build, addresses=tuple(addresses)))
    )
    stream = pipeline.batches(cell, data, recipe, 0, warm_up=0)

    def train() -> float:
        return sum(sum(done.step_s) for done in strategy.train(stream, steps))

    return train


def keras_fit(
    module: ModuleType, data: "Dataset", batch: int, steps: int, *, jit_compile: bool | str
) -> Callable[[], float]:
    """Return a function that trains some steps with `fit` and returns their seconds."""
    import keras
    import numpy as np

    model = module.build()
    model.compile(
        model.optimizer,
        model.loss,
        metrics=["accuracy"],
        jit_compile=jit_compile,
    )
    x, y = np.array(data.train[0][: steps * batch]), np.array(data.train[1][: steps * batch])
    if hasattr(module, "preprocess"):
        x = module.preprocess(x).numpy()

    class Epochs(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
            self.began = time.perf_counter()

        def on_epoch_end(self, epoch: int, logs: object = None) -> None:
            self.seconds = time.perf_counter() - self.began

    def train() -> float:
        clock = Epochs()
        model.fit(x, y, batch_size=batch, epochs=2, verbose=0, callbacks=[clock])
        return clock.seconds

    return train


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

"""The timed loop against bare `tf.function` loops (level: within 5 %), interleaved in one process.

All train Fashion CNN, one worker on one core. The timed loop is the one that every cell runs, fed
by the project's pipeline. The bare ones do nothing but call the step: one is fed by tf.data as in
any tutorial (shuffle, batch, prefetch), one by slices of an array, unshuffled, with no pipeline.
"""

import os
import time

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1", "OMP_NUM_THREADS": "1"}

import numpy as np
import tensorflow as tf

from nodewise import batches, models, places, strategies, train
from nodewise.cells import Cell, Extent
from nodewise.cells import Local as OneCore
from nodewise.clusters.local import Local
from nodewise.datasets import Dataset
from nodewise.recipes import Recipe
from nodewise.strategies.base import Job

ROUNDS, STEPS = 15, 40


def main() -> None:
    Local(1).enter_node(0)
    places.compute_with_one_thread()
    random = np.random.default_rng(1)
    x = random.integers(0, 256, (20_000, 28, 28, 1), dtype=np.uint8)
    y = random.integers(0, 10, 20_000, dtype=np.uint8)
    for batch in (32, 64, 512):
        timed, *bare = loops(x, y, batch)
        names = ("fed by tf.data", "fed by slices")
        seconds = {loop: [] for loop in (timed, *bare)}
        for round_ in range(-1, ROUNDS):
            for loop in random.permutation([*seconds]):
                taken = loop()
                if round_ >= 0:  # the first round traces
                    seconds[loop].append(taken)
        for name, loop in zip(names, bare, strict=True):
            ratios = np.divide(seconds[timed], seconds[loop])
            low, high = np.quantile(ratios, [0.05, 0.95])
            print(
                f"batch {batch:4}: timed / bare {name:14} = {np.median(ratios):.3f}"
                f"  (90 % of {ROUNDS} rounds: {low:.3f} to {high:.3f})"
            )


def cell_of(batch: int) -> Cell:
    return Cell(
        study="nodewise",
        experiment="bench",
        model="fashion_cnn",
        dataset="fashion_mnist",
        strategy="single",
        cluster=OneCore(),
        batch=batch,
        nodes=1,
        repeat=0,
        extent=Extent(steps=STEPS),
        seed=1,
        time_limit_s=600,
    )


def loops(x: np.ndarray, y: np.ndarray, batch: int):
    module = models.load("fashion_cnn")
    job = Job(0, 1, batch, 1, module.build, module.optimizer)
    strategy = strategies.load("single").Strategy(job)
    model, optimizer = module.build(), module.optimizer()
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(x: tf.Tensor, y: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.cast(y, tf.int32), logits)
            loss = tf.reduce_mean(losses)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)

    fed = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(10_000).repeat()
    ordinary = iter(fed.batch(batch).prefetch(2))

    def by_pipeline() -> float:
        started = time.perf_counter()
        for _ in range(STEPS):
            step(*next(ordinary))
        return time.perf_counter() - started

    def by_slices() -> float:
        started = time.perf_counter()
        for index in range(STEPS):
            rows = slice(index * batch % 19_000, index * batch % 19_000 + batch)
            step(tf.constant(x[rows]), tf.constant(y[rows]))
        return time.perf_counter() - started

    recipe = Recipe(module.build, module.optimizer)
    stream = batches.batches(cell_of(batch), Dataset(None, x, y, x, y), recipe, 0, warm_up=0)

    def timed() -> float:
        clock = train.Clock(lambda message: None, STEPS)
        return clock.train(strategy, stream, STEPS)["seconds"]

    return timed, by_pipeline, by_slices


if __name__ == "__main__":
    main()

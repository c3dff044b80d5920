"""The timed loop against a bare `tf.function` loop (level: within 5 %), interleaved in one process.

Both train Fashion CNN on the same batches, one worker on one core. The bare loop does nothing but
slice, convert and call; the timed one is the loop that every cell runs.
"""

import itertools
import os
import statistics
import time

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1", "OMP_NUM_THREADS": "1"}

import numpy as np
import tensorflow as tf

from nodewise import models, strategies, train
from nodewise.clusters.local import Local
from nodewise.strategies.base import Job

ROUNDS, STEPS = 15, 40


def main() -> None:
    Local(1).enter_node(0)
    train.compute_with_one_thread()
    random = np.random.default_rng(1)
    x = random.integers(0, 256, (20_000, 28, 28, 1), dtype=np.uint8)
    y = random.integers(0, 10, 20_000, dtype=np.uint8)
    for batch in (32, 64, 512):
        bare, timed = loops(x, y, batch)
        bare(), timed()
        ratios = []
        for round_ in range(ROUNDS):
            order = (bare, timed) if round_ % 2 else (timed, bare)
            seconds = {loop: loop() for loop in order}
            ratios.append(seconds[timed] / seconds[bare])
        low, high = np.quantile(ratios, [0.05, 0.95])
        print(
            f"batch {batch:4}: timed / bare = {statistics.median(ratios):.3f}"
            f"  (90 % of {ROUNDS} rounds: {low:.3f} to {high:.3f})"
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

    def bare() -> float:
        started = time.perf_counter()
        for index in range(STEPS):
            rows = slice(index * batch % 19_000, index * batch % 19_000 + batch)
            step(tf.constant(x[rows]), tf.constant(y[rows]))
        return time.perf_counter() - started

    batches = train.Batches(x, y, np.arange(20_000), batch, 1)

    def timed() -> float:
        clock = train.Clock(lambda message: None, STEPS)
        return clock.train(strategy, itertools.islice(batches.endless(), STEPS))["seconds"]

    return bare, timed


if __name__ == "__main__":
    main()

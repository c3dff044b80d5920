"""Train with a custom loop on two workers and save the results.

The workers train STEPS steps one by one and then, from the same initial state, in the loop. Worker
RANK saves OUT/loop/RANK.npz:

    one_by_one, looped     weights and moving statistics after each of the two
    loss_one_by_one, loss_looped
                           losses after each of the two
    input_s, step_s        times of the steps in the loop
    clock_s                seconds that the whole loop took
    slow_input_s, slow_step_s
                           of a few steps for which worker 0 waits SLOW_S for each batch
"""

import time
from functools import partial
from pathlib import Path

from training_job import Case

import local_job
from nodewise.cluster.channel import Channel

NODES, STEPS, BATCH = 2, 120, 8
SLOW_S, SLOW_STEPS = 0.1, 10


def main(out: Path) -> None:
    local_job.train_cases(out, {"loop": Case("custom_loop", NODES, "normalised")}, train)


def train(rank: int, addresses: tuple[str, ...], _: Channel, *, case: Case, out: Path) -> None:
    import numpy as np
    import small_models
    import tensorflow as tf

    from nodewise.strategies import api

    def pipeline(rank: int, wait_s: float) -> tf.data.Iterator:
        random = np.random.default_rng(rank)
        x = random.normal(0, 1, (STEPS, BATCH, small_models.WIDTH)).astype(np.float32)
        y = random.integers(0, 4, (STEPS, BATCH))

        @tf.autograph.experimental.do_not_convert
        def come(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            waited = tf.numpy_function(lambda: time.sleep(wait_s), [], [])
            with tf.control_dependencies([waited]):
                return tf.identity(x), tf.identity(y)

        return iter(tf.data.Dataset.from_tensor_slices((x, y)).map(come))

    def trained(strategy: api.Strategy) -> np.ndarray:
        statistics = [v.numpy() for v in api.moving_statistics(strategy.model)]
        return np.concatenate([array.ravel() for array in (*strategy.weights(), *statistics)])

    build = partial(small_models.compiled, "normalised", "sgd")
    strategy = local_job.make_strategy(case, rank, addresses, build, NODES * BATCH)
    initial = strategy.state()
    stream = pipeline(rank, 0)
    for _ in range(STEPS):
        logs = strategy.step(next(stream))
    saved = {"loss_one_by_one": logs["loss"], "one_by_one": trained(strategy)}
    strategy.restore(initial)
    for _ in strategy.train(pipeline(rank, 0), 2):  # This traces the loop.
        pass
    strategy.restore(initial)
    strategy.model.reset_metrics()
    stream = pipeline(rank, 0)
    started = time.perf_counter()
    done = list(strategy.train(stream, STEPS))
    saved["clock_s"] = time.perf_counter() - started
    saved["loss_looped"] = done[-1].logs["loss"]
    saved["looped"] = trained(strategy)
    slowly = list(strategy.train(pipeline(rank, SLOW_S if rank == 0 else 0), SLOW_STEPS))
    for name in ("input_s", "step_s"):
        saved[name] = np.concatenate([getattr(some, name) for some in done])
        saved[f"slow_{name}"] = np.concatenate([getattr(some, name) for some in slowly])
    np.savez(out / f"{rank}.npz", **saved)

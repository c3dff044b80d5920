"""Steps in a loop inside TensorFlow equal single steps and are timed as well as these.

Two real processes run more steps than one loop has.
"""

import time
from functools import partial

import numpy as np
import pytest
from training_job import Case

import local_job

pytestmark = pytest.mark.alone

NODES, STEPS, BATCH = 2, 120, 8
SLOW_S, SLOW_STEPS = 0.1, 10


def train(rank, addresses, _, *, case, out):
    """Train the steps one by one, then in the loop, from the same initial state.

    Worker RANK saves OUT/RANK.npz: the weights, moving statistics and losses after each of the two,
    the times of the steps in the loop, the seconds that the whole loop took, and the times of a few
    steps for which worker 0 waits SLOW_S for each batch.
    """
    import small_models
    import tensorflow as tf

    from nodewise.strategies import api

    def pipeline(wait_s):
        random = np.random.default_rng(rank)
        x = random.normal(0, 1, (STEPS, BATCH, small_models.WIDTH)).astype(np.float32)
        y = random.integers(0, 4, (STEPS, BATCH))

        @tf.autograph.experimental.do_not_convert
        def come(x, y):
            waited = tf.numpy_function(lambda: time.sleep(wait_s), [], [])
            with tf.control_dependencies([waited]):
                return tf.identity(x), tf.identity(y)

        return iter(tf.data.Dataset.from_tensor_slices((x, y)).map(come))

    def trained():
        statistics = [v.numpy() for v in api.moving_statistics(strategy.model)]
        return np.concatenate([array.ravel() for array in (*strategy.weights(), *statistics)])

    build = partial(small_models.compiled, "normalised", "sgd")
    strategy = local_job.make_strategy(case, rank, addresses, build, NODES * BATCH)
    initial = strategy.state()
    stream = pipeline(0)
    for _ in range(STEPS):
        logs = strategy.step(next(stream))
    saved = {"loss_one_by_one": logs["loss"], "one_by_one": trained()}
    strategy.restore(initial)
    list(strategy.train(pipeline(0), 2))  # This traces the loop.
    strategy.restore(initial)
    strategy.model.reset_metrics()
    stream = pipeline(0)
    started = time.perf_counter()
    done = list(strategy.train(stream, STEPS))
    saved["clock_s"] = time.perf_counter() - started
    saved |= {"loss_looped": done[-1].logs["loss"], "looped": trained()}
    slowly = list(strategy.train(pipeline(0 if rank else SLOW_S), SLOW_STEPS))
    for name in ("input_s", "step_s"):
        saved[name] = np.concatenate([getattr(some, name) for some in done])
        saved[f"slow_{name}"] = np.concatenate([getattr(some, name) for some in slowly])
    np.savez(out / f"{rank}.npz", **saved)


@pytest.fixture(scope="module")
def workers(tmp_path_factory, run_job):
    out = tmp_path_factory.mktemp("loop")
    run_job(local_job.train_cases, out, {"loop": Case("custom_loop", NODES, "normalised")}, train)
    return [dict(np.load(out / f"loop/{rank}.npz")) for rank in range(NODES)]


def test_the_loop_trains_what_single_steps_train(workers):
    """This includes dropout and batch normalisation."""
    for worker in workers:
        scale = np.abs(worker["one_by_one"]).max()
        assert scale < 10  # Otherwise the tolerance would allow anything.
        assert np.abs(worker["looped"] - worker["one_by_one"]).max() <= 1e-5 * scale
        np.testing.assert_allclose(worker["loss_looped"], worker["loss_one_by_one"], rtol=1e-4)


def test_every_step_is_timed(workers):
    for worker in workers:
        assert len(worker["step_s"]) == len(worker["input_s"]) == STEPS
        assert (worker["input_s"] > 0).all()
        assert (worker["input_s"] < worker["step_s"]).all()
        assert worker["step_s"].sum() == pytest.approx(worker["clock_s"], rel=0.2)


def test_waiting_for_a_batch_is_told_from_waiting_for_a_peer(workers):
    slow, other = workers
    assert len(slow["slow_step_s"]) == SLOW_STEPS
    assert np.median(slow["slow_input_s"]) >= SLOW_S * 0.9
    # The other worker has its batches; its steps take as long because the all-reduce waits.
    assert np.median(other["slow_input_s"]) < SLOW_S / 3
    assert np.median(other["slow_step_s"]) >= SLOW_S * 0.9

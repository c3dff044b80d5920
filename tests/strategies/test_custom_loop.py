"""Steps in a loop inside TensorFlow equal single steps and are timed as well as these.

Two real processes run more steps than one loop has; see loop_job.py.
"""

import loop_job
import numpy as np
import pytest
from loop_job import NODES, SLOW_S, SLOW_STEPS, STEPS

pytestmark = pytest.mark.alone


@pytest.fixture(scope="module")
def workers(tmp_path_factory, run_job):
    out = tmp_path_factory.mktemp("loop")
    run_job(loop_job.main, out)
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

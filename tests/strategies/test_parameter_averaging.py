"""Three workers average their weights exactly when and where they should.

The workers are real processes with unequal parts of the global batch; see averaging_job.py.
"""

import averaging_job
import numpy as np
import pytest
from averaging_job import NODES, STEPS, STEPS_PER_EPOCH

pytestmark = pytest.mark.slow

EVERY_STEP, PERIOD = 1, 4
CASES = {
    "every_step": ("sgd", {"period": EVERY_STEP}),
    "kept": ("momentum", {"period": PERIOD}),
    "epoch": ("momentum", {"period": "epoch"}),
}
TOLERANCE = 1e-5  # relative to the largest weight: float32 rounding


@pytest.fixture(scope="module")
def saved(tmp_path_factory, run_job):
    """Return label -> name -> what each worker saved, (workers, …); `single` has no worker axis."""
    out = tmp_path_factory.mktemp("averaging")
    run_job(averaging_job.main, out, CASES)
    found = {}
    for label in CASES:
        workers = [np.load(out / f"{label}~{rank}.npz") for rank in range(NODES)]
        found[label] = {name: np.stack([worker[name] for worker in workers]) for name in workers[0]}
    return found | {"single": dict(np.load(out / "single.npz"))}


def largest_difference(mine, reference):
    return np.abs(mine - reference).max() / np.abs(reference).max()


def test_plain_sgd_averaged_after_every_step_is_synchronous_sgd_on_uneven_parts(saved):
    averaged, single = saved["every_step"], saved["single"]["weights"]
    for worker in range(NODES):
        assert largest_difference(averaged["weights"][worker], single) <= TOLERANCE
        assert largest_difference(averaged["split"][worker], single[-1]) <= TOLERANCE
    assert largest_difference(single[0], single[-1]) > 100 * TOLERANCE


@pytest.mark.parametrize("label", CASES)
def test_the_workers_weights_are_equal_whenever_they_were_averaged_and_only_then(saved, label):
    period = STEPS_PER_EPOCH if label == "epoch" else CASES[label][1]["period"]
    for step in range(1, STEPS + 1):
        first, *others = saved[label]["weights"][:, step - 1]
        equal = [np.array_equal(first, other) for other in others]
        assert equal == [step % period == 0] * (NODES - 1), step
    assert list(saved[label]["replicas_agree"]) == [period == 1] * NODES


def test_weights_become_the_mean_of_what_the_workers_have_trained(saved):
    # The case `epoch` has a longer period: nothing was averaged yet.
    before = saved["epoch"]["weights"][:, PERIOD - 1]
    after = saved["kept"]["weights"][:, PERIOD - 1]
    for worker in range(NODES):
        assert largest_difference(after[worker], before.mean(axis=0)) <= TOLERANCE
    assert largest_difference(before[0], before[1]) > 100 * TOLERANCE


def test_each_worker_keeps_its_momentum(saved):
    before, kept = (saved[how]["memory"][:, PERIOD - 1] for how in ("epoch", "kept"))
    np.testing.assert_array_equal(kept, before)
    assert largest_difference(before[0], before[1]) > 100 * TOLERANCE


def test_bytes_are_those_of_a_ring_all_reduce_once_a_period(saved):
    sent = saved["kept"]["sent"].astype(float)
    payload = 4 * saved["kept"]["weights"].shape[-1]
    ring = 2 * (NODES - 1) / NODES * payload
    due = np.arange(1, STEPS + 1) % PERIOD == 0
    assert sent[:, due].mean() == pytest.approx(ring, rel=0.02)
    assert sent[:, ~due].max() < 0.02 * ring


def test_after_training_all_have_the_mean_of_what_was_left_different(saved):
    last = saved["kept"]["weights"][:, -1]
    assert not np.array_equal(last[0], last[1])
    for agreed in saved["kept"]["agreed"]:
        assert largest_difference(agreed, last.mean(axis=0)) <= TOLERANCE
        np.testing.assert_array_equal(agreed, saved["kept"]["agreed"][0])


@pytest.mark.parametrize("label", CASES)
def test_the_split_form_does_the_same_and_communicates_when_averaging_is_due(saved, label):
    for split, fused in zip(saved[label]["split"], saved[label]["weights"][:, -1], strict=True):
        assert largest_difference(split, fused) <= TOLERANCE
    period = STEPS_PER_EPOCH if label == "epoch" else CASES[label][1]["period"]
    due = np.arange(1, STEPS + 1) % period == 0
    compute, wait, communicate, apply = np.moveaxis(saved[label]["times"], -1, 0)
    assert (compute > 0).all()
    assert (apply > 0).all()
    for part in (wait, communicate):
        assert (part[:, due] > 0).all()
        assert (part[:, ~due] == 0).all()

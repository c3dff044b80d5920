"""Three workers with unequal parts of the global batch average their weights when they should."""

import numpy as np
import pytest
from training_job import STEPS, STEPS_PER_EPOCH, Case, train_all

pytestmark = pytest.mark.slow

NODES, PERIOD = 3, 4
PERIODS = {"every_step": 1, "kept": PERIOD, "epoch": STEPS_PER_EPOCH}
TOLERANCE = 1e-5  # relative to the largest weight: float32 rounding


@pytest.fixture(scope="module")
def done(tmp_path_factory, run_job):
    """Return what the workers of each case saved."""
    cases = {"single": Case("single", 1, "wide", {}, "sgd")}
    for name, period in PERIODS.items():
        options = {"period": "epoch" if name == "epoch" else period}
        optimizer = "sgd" if name == "every_step" else "momentum"
        cases[name] = Case("parameter_averaging", NODES, "wide", options, optimizer, split=True)
    return train_all(run_job, tmp_path_factory.mktemp("averaging"), cases)


def largest_difference(mine, reference):
    return np.abs(mine - reference).max() / np.abs(reference).max()


def due(name):
    """Return for each step whether weights are averaged after it."""
    return np.arange(1, STEPS + 1) % PERIODS[name] == 0


def test_plain_sgd_averaged_after_every_step_is_synchronous_sgd_on_uneven_parts(done):
    single = done["single"].all("weights")[0]
    for weights in done["every_step"].all("weights"):
        assert largest_difference(weights, single) <= TOLERANCE
    assert largest_difference(single[0], single[-1]) > 100 * TOLERANCE


@pytest.mark.parametrize("name", PERIODS)
def test_the_workers_weights_are_equal_whenever_they_were_averaged_and_only_then(done, name):
    first, *others = done[name].all("weights")[:, 1:]
    for other in others:
        assert (first == other).all(axis=1).tolist() == due(name).tolist()
    assert {seen["replicas_agree"] for seen in done[name].seen} == {PERIODS[name] == 1}


def test_weights_become_the_mean_of_what_the_workers_have_trained(done):
    # The case `epoch` has a longer period: nothing was averaged yet.
    before = done["epoch"].all("weights")[:, PERIOD]
    for after in done["kept"].all("weights")[:, PERIOD]:
        assert largest_difference(after, before.mean(axis=0)) <= TOLERANCE
    assert largest_difference(before[0], before[1]) > 100 * TOLERANCE


def test_each_worker_keeps_its_momentum(done):
    before, kept = (done[name].all("memory")[:, PERIOD - 1] for name in ("epoch", "kept"))
    np.testing.assert_array_equal(kept, before)
    assert largest_difference(before[0], before[1]) > 100 * TOLERANCE


def test_bytes_are_those_of_a_ring_all_reduce_once_a_period(done):
    sent = np.diff(done["kept"].all("sent").astype(float))
    payload = 4 * done["kept"].all("agreed").shape[-1]
    ring = 2 * (NODES - 1) / NODES * payload
    assert sent[:, due("kept")].mean() == pytest.approx(ring, rel=0.02)
    assert sent[:, ~due("kept")].max() < 0.02 * ring


def test_after_training_all_have_the_mean_of_what_was_left_different(done):
    last, agreed = done["kept"].all("weights")[:, -1], done["kept"].all("agreed")
    assert not np.array_equal(last[0], last[1])
    assert largest_difference(agreed, last.mean(axis=0)) <= TOLERANCE
    assert (agreed == agreed[0]).all()


@pytest.mark.parametrize("name", PERIODS)
def test_the_split_form_does_the_same_and_communicates_when_averaging_is_due(done, name):
    assert largest_difference(done[name].all("split"), done[name].all("weights")[:, -1]) <= 1e-5
    compute, wait, communicate, apply = np.moveaxis(done[name].all("times"), -1, 0)
    assert (compute > 0).all() and (apply > 0).all()
    for part in (wait, communicate):
        assert ((part > 0) == due(name)).all()

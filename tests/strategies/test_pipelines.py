"""Small models on real workers: what stages learn and send, and what replicas have in common."""

import numpy as np
import pytest
from training_job import EXAMPLES, STEPS, Case, read, train, train_all

from local_job import train_cases

REPLICATED = ["compressed_sgd", "custom_loop", "mpi"]
REPLICATED += ["multi_worker_mirrored", "parameter_averaging"]
ONE = {"normalised": "one", "frozen": "one_frozen", "embedded": "one_embedded"}
CASES = {
    **{name: Case("single", 1, model) for model, name in ONE.items()},
    "whole": Case("model_parallel", 2, "normalised"),
    "whole_frozen": Case("model_parallel", 3, "frozen"),
    "embedded": Case("model_parallel", 2, "embedded", {"micro_batches": 5}),
    "embedded_twice": Case("hybrid", 4, "embedded", {"micro_batches": 2}),
    "pipeline": Case("model_parallel", 2, "normalised", {"micro_batches": 3}),
    "pipeline_frozen": Case("model_parallel", 2, "frozen", {"micro_batches": 3}),
    "side_by_side": Case("hybrid", 4, "drawn_normalised", {"micro_batches": 2}),
    "star": Case("multi_worker_mirrored", 3, "wide", {"collective": "star"}),
    **{name: Case(name, 2, "normalised") for name in REPLICATED},
}
TIMED = {
    "naive": Case("model_parallel", 2, "slow"),
    "filled": Case("model_parallel", 2, "slow", {"micro_batches": 4}),
}


@pytest.fixture(scope="module")
def done(tmp_path_factory, run_job):
    out = tmp_path_factory.mktemp("stages")
    run_job(train_cases, out, CASES, train, timeout_s=900)
    return lambda case: read(out / case)


@pytest.fixture(scope="module")
def timed(tmp_path_factory, run_job):
    return train_all(run_job, tmp_path_factory.mktemp("timed"), TIMED)


def assert_one_model(models):
    for found in models:
        for mine, first in zip(found, models[0], strict=True):
            np.testing.assert_array_equal(mine, first)


@pytest.mark.parametrize("case", ["whole", "whole_frozen", "embedded", "embedded_twice"])
def test_stages_train_like_one_process(done, case):
    """With whole batches, statistics of batch normalisation, dropout and losses are equal, too."""
    expected, found = done(ONE[CASES[case].model]), done(case)
    assert len(found.models()) == CASES[case].nodes
    assert_one_model(found.models())
    for mine, theirs in zip(found.models()[0], expected.models()[0], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.losses(), expected.losses(), rtol=1e-4)


@pytest.mark.parametrize(("case", "back"), [("pipeline", 1), ("pipeline_frozen", 0)])
def test_only_activations_and_the_gradients_that_are_needed_are_sent(done, case, back):
    """No gradient is sent back to a stage if it and all stages before it are frozen."""
    activations = STEPS * EXAMPLES * 16 * 4  # steps × examples × units × bytes
    first, last = done(case).seen
    for bytes_, expected in (
        (first["sent"], activations),
        (last["received"], activations),
        (last["sent"], back * activations),
        (first["received"], back * activations),
    ):
        assert expected <= bytes_ <= expected + 100 * STEPS  # lengths of messages, and barriers


def test_pipelines_side_by_side_keep_one_model(done):
    """Weights are equal from the start; statistics become the mean over the pipelines."""
    models, seen = done("side_by_side").models(), done("side_by_side").seen
    assert_one_model(models)
    # Weights of the other stages are still the initial ones.
    digests = [one["weights"] for one in seen]
    assert digests[:2] == digests[2:]
    assert digests[0] != digests[1]
    assert len(seen[0]["statistics"]) == 6  # mean and variance of three layers
    for number, agreed in enumerate(models[0][-6:]):
        before = [one["statistics"][number] for one in seen]
        start = float(number % 2)  # Statistics of other workers' stages keep their initial values.
        (one, other) = [values for values in before if set(values) != {start}]
        assert not np.allclose(one, other)
        np.testing.assert_allclose(agreed, np.mean([one, other], axis=0), rtol=1e-6)
    first, same, other, other_same = (one["seeds"] for one in seen)
    assert first == same  # Pipelines drop other units, the stages of one the same.
    assert other == other_same == [seed + 1 for seed in first]


@pytest.mark.parametrize("strategy", REPLICATED)
def test_replicas_average_their_statistics_and_leave_no_thread_behind(done, strategy):
    """With a timeout, TensorFlow's collectives leave a thread each, until no more can start."""
    models, seen = done(strategy).models(), done(strategy).seen
    assert_one_model(models)
    before = [worker["statistics"] for worker in seen]
    assert len(before[0]) == 6  # mean and variance of three layers
    for one, other, agreed in zip(*before, models[0][-6:], strict=True):
        assert not np.allclose(one, other)
        np.testing.assert_allclose(agreed, np.mean([one, other], axis=0), rtol=1e-6)
    first, second = (worker["seeds"] for worker in seen)
    assert second == [seed + 1 for seed in first]
    assert max(worker["more_threads"] for worker in seen) < 10


def test_the_driver_of_a_star_sends_to_all_and_the_others_to_the_driver(done):
    driver, *others = done("star").seen
    gradients = STEPS * 4 * done("star").all("agreed").shape[-1]  # bytes
    around = 0.02 * gradients  # bytes for the lengths of messages and TensorFlow's barriers
    assert len({worker["weights"] for worker in (driver, *others)}) == 1
    for way in ("sent", "received"):
        assert 2 * gradients <= driver[way] <= 2 * gradients + around
        for other in others:  # In a ring every worker would send 4/3 of this.
            assert gradients <= other[way] <= gradients + around


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize(("case", "idle"), [("naive", 1 / 2), ("filled", 1 / 5)])
def test_micro_batches_fill_the_pipeline(timed, case, idle):
    """With n stages of equal duration, a share of (n − 1) / (micro-batches + n − 1) is idle."""
    bubbles = [one["observed"]["bubble_share"] for one in timed[case].seen]
    assert [len(shares) for shares in bubbles] == [STEPS, STEPS]
    assert np.median(bubbles, axis=1) == pytest.approx([idle] * 2, abs=0.12)

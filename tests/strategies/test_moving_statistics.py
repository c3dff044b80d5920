"""After training, replicas are equal, including batch normalisation, and no step leaves threads."""

import json

import moving_statistics_job
import numpy as np
import pytest

STRATEGIES = "compressed_sgd", "custom_loop", "mpi", "multi_worker_mirrored", "parameter_averaging"


@pytest.fixture(scope="module")
def folder(tmp_path_factory, run_job):
    """Return the folder with what workers of every strategy saved."""
    out = tmp_path_factory.mktemp("statistics")
    run_job(moving_statistics_job.main, out, STRATEGIES, timeout_s=300)
    return out


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_moving_statistics_are_averaged_over_the_workers(folder, strategy):
    out = folder / strategy
    before, after = (
        [list(np.load(out / f"{when}~{rank}.npz").values()) for rank in range(2)]
        for when in ("before", "after")
    )
    assert len(after[0]) == 2  # mean and variance
    for one, other, agreed, agreed_too in zip(*before, *after, strict=True):
        assert not np.allclose(one, other)
        np.testing.assert_allclose(agreed, (one + other) / 2, rtol=1e-6)
        np.testing.assert_array_equal(agreed, agreed_too)
    logits = [np.load(out / f"logits~{rank}.npy") for rank in range(2)]
    np.testing.assert_array_equal(*logits)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_step_leaves_no_thread_behind(folder, strategy):
    """With a timeout, TensorFlow's collectives leave a thread each, until no more can start."""
    grown = [json.loads(path.read_text()) for path in (folder / strategy).glob("threads~*.json")]
    assert len(grown) == 2
    assert max(grown) < 10


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_workers_begin_with_the_same_weights_and_drop_other_units(folder, strategy):
    weights, masks = (
        [list(np.load(folder / strategy / f"{what}~{rank}.npz").values()) for rank in range(2)]
        for what in ("initial", "dropped")
    )
    for one, other in zip(*weights, strict=True):
        np.testing.assert_array_equal(one, other)
    for first, second, again in masks:
        assert (first != second).any()
        np.testing.assert_array_equal(first, again)
    assert (masks[0][0] != masks[1][0]).any()

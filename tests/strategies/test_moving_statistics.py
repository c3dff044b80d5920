"""After training, replicas are equal, including batch normalisation, and no step leaves threads."""

import json

import numpy as np
import pipeline_job
import pytest
from pipeline_job import Case

STRATEGIES = "compressed_sgd", "custom_loop", "mpi", "multi_worker_mirrored", "parameter_averaging"
EACH = pytest.mark.parametrize("strategy", STRATEGIES)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, run_job):
    """Return strategy -> (what two workers saw, their models after they agreed)."""
    out = tmp_path_factory.mktemp("statistics")
    cases = {name: Case(name, 2, "normalised", {}) for name in STRATEGIES}
    run_job(pipeline_job.main, out, cases, timeout_s=300)
    return {
        name: (
            [json.loads(path.read_text()) for path in sorted(out.glob(f"{name}/seen~*"))],
            [[*np.load(path).values()] for path in sorted(out.glob(f"{name}/model~*"))],
        )
        for name in STRATEGIES
    }


@EACH
def test_moving_statistics_are_averaged_over_the_workers(trained, strategy):
    seen, models = trained[strategy]
    for one, other in zip(*models, strict=True):
        np.testing.assert_array_equal(one, other)
    before = [worker["statistics"] for worker in seen]
    assert len(before[0]) == 6  # mean and variance of three layers
    for one, other, agreed in zip(*before, models[0][-6:], strict=True):
        assert not np.allclose(one, other)
        np.testing.assert_allclose(agreed, np.mean([one, other], axis=0), rtol=1e-6)


@EACH
def test_a_step_leaves_no_thread_behind(trained, strategy):
    """With a timeout, TensorFlow's collectives leave a thread each, until no more can start."""
    assert max(worker["more_threads"] for worker in trained[strategy][0]) < 10


@EACH
def test_workers_drop_other_units(trained, strategy):
    first, second = (worker["seeds"] for worker in trained[strategy][0])
    assert second == [seed + 1 for seed in first]

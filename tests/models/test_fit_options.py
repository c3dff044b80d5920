"""Class weights and callbacks do what they do in `fit`, on one process and on two workers."""

import fit_options_job
import numpy as np
import pytest

KINDS = ["callbacks", "class_weight"]
TOLERANCE = 1e-5

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory, run_job):
    """Return a function: what a strategy trained of each kind on some nodes, in a folder."""
    done = {}

    def of(strategy, nodes):
        if strategy not in done:
            done[strategy] = tmp_path_factory.mktemp(strategy)
            run_job(fit_options_job.main, done[strategy], KINDS, strategy, nodes, timeout_s=380)
        return done[strategy]

    return of


def of_worker(folder, kind, rank=0):
    failed = folder / f"{kind}.txt"
    assert not failed.exists(), failed.read_text()
    with np.load(folder / f"{kind}~{rank}.npz") as arrays:
        return {name: arrays[name] for name in arrays.files}


def assert_alike(found, expected):
    assert set(found) == set(expected)
    largest = max(np.abs(array).max() for name, array in expected.items() if name != "loss")
    for name, array in expected.items():
        scale = max(1.0, float(array)) if name == "loss" else largest
        assert np.abs(found[name] - array).max() <= TOLERANCE * scale, name


@pytest.mark.parametrize("kind", KINDS)
def test_one_process_is_fit(trained, kind):
    assert_alike(of_worker(trained("single", 1), kind), of_worker(trained("fit", 1), kind))


@pytest.mark.parametrize("strategy", ["custom_loop", "mpi", "multi_worker_mirrored"])
@pytest.mark.parametrize("kind", KINDS)
def test_two_workers_are_fit_on_the_global_batch(trained, kind, strategy):
    expected = of_worker(trained("fit", 1), kind)
    for rank in range(2):
        found = of_worker(trained(strategy, 2), kind, rank)
        # a worker's logs are those of its own examples
        assert_alike(found | {"loss": expected["loss"]}, expected)

"""Models of any kind train as in `fit`, on one process and on two workers with the same batches."""

from pathlib import Path

import kinds_job
import numpy as np
import pytest

KINDS = sorted(
    path.stem
    for path in (Path(__file__).parents[1] / "kinds").glob("*.py")
    if path.stem != "__init__"
)
LOOSE = {"loss_scaling": 1e-3}  # of float16
# what another order of the workers' examples makes of a mean of means
TOLERANCE = 1e-5
# MultiWorkerMirroredStrategy has the optimizer look at each replica's own gradient
REFUSED = {"multi_worker_mirrored": {"averaged", "loss_scaling", "regression"}}
# with it, a train_step of one's own has to divide its loss by the number of replicas
UNDIVIDED = {"multi_worker_mirrored": {"gan", "own_train_step"}}
BESIDE = ["custom_loop", "mpi", "multi_worker_mirrored"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory, run_job):
    """Return a function: what a strategy trained of each kind on some nodes, in a folder."""
    done = {}

    def of(strategy, nodes):
        if (strategy, nodes) not in done:
            out = tmp_path_factory.mktemp(strategy)
            run_job(kinds_job.main, out, KINDS, strategy, nodes, timeout_s=380)
            done[strategy, nodes] = out
        return done[strategy, nodes]

    return of


def of_worker(folder, kind, rank=0):
    failed = folder / f"{kind}.txt"
    assert not failed.exists(), failed.read_text()
    with np.load(folder / f"{kind}~{rank}.npz") as arrays:
        return {name: arrays[name] for name in arrays.files}


def assert_alike(found, expected, kind):
    assert set(found) == set(expected)
    limit = LOOSE.get(kind, TOLERANCE)
    largest = max(np.abs(array).max() for name, array in expected.items() if name != "loss")
    for name, array in expected.items():
        scale = max(1.0, float(array)) if name == "loss" else largest
        assert np.abs(found[name] - array).max() <= limit * scale, name


@pytest.mark.parametrize("kind", KINDS)
def test_one_process_is_fit(trained, kind):
    assert_alike(of_worker(trained("single", 1), kind), of_worker(trained("fit", 1), kind), kind)


@pytest.mark.parametrize("strategy", BESIDE)
@pytest.mark.parametrize("kind", KINDS)
def test_two_workers_are_fit_on_the_global_batch(trained, kind, strategy):
    folder = trained(strategy, 2)
    if kind in REFUSED.get(strategy, ()):
        assert "custom_loop" in (folder / f"{kind}.txt").read_text()
        return
    if kind in UNDIVIDED.get(strategy, ()):
        assert of_worker(folder, kind)
        return
    for rank in range(2):
        found = of_worker(folder, kind, rank)
        expected = of_worker(trained("fit", 1), kind)
        # a worker's logs are those of its own examples
        found["loss"] = expected["loss"]
        assert_alike(found, expected, kind)

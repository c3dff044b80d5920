"""Dense layers split over nodes: what is learnt and sent, what is refused, stuck workers.

Another test checks that ten steps equal those of one process, as for other synchronous strategies.
"""

import json
import signal

import async_sgd_job
import numpy as np
import pipeline_job
import pytest
from pipeline_job import Case

MODELS = ("normalised", "frozen", "embedded")
CASES = {
    **{f"{model}_1": ("single", 1, model, {}) for model in MODELS},
    **{f"{model}_{n}": ("tensor_parallel", n, model, {}) for model in MODELS for n in (2, 3)},
    "no_pair": ("tensor_parallel", 1, "slow", {}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, run_job):
    out = tmp_path_factory.mktemp("tensor_parallel")
    cases = {name: Case(*case) for name, case in CASES.items()}
    run_job(pipeline_job.main, out, cases)
    return out


def failure(folder, case):
    return (folder / case / "failure.txt").read_text()


def models(folder, case):
    """Return the final weights and moving statistics of each worker."""
    assert not (folder / case / "failure.txt").exists(), failure(folder, case)
    return [list(np.load(path).values()) for path in sorted(folder.glob(f"{case}/model~*.npz"))]


def seen(folder, case):
    return [json.loads(path.read_text()) for path in sorted(folder.glob(f"{case}/seen~*.json"))]


@pytest.mark.parametrize("nodes", [2, 3])  # With three nodes, each has 3 of 8 or 6 of 16 units.
@pytest.mark.parametrize("model", MODELS)
def test_split_layers_train_like_one_process(folder, model, nodes):
    """This includes losses, statistics of batch normalisation and dropout."""
    (expected,), found = models(folder, f"{model}_1"), models(folder, f"{model}_{nodes}")
    assert len(found) == nodes
    for worker in found:
        for mine, theirs, first in zip(worker, expected, found[0], strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
            np.testing.assert_array_equal(mine, first)
    losses = seen(folder, f"{model}_{nodes}")[0]["losses"]
    np.testing.assert_allclose(losses, seen(folder, f"{model}_1")[0]["losses"], rtol=1e-4)


@pytest.mark.parametrize(
    ("case", "inputs", "outputs"), [("frozen_2", 0, 4), ("embedded_2", 128, 4)]
)
def test_a_pair_sends_its_outputs_and_the_gradient_of_its_inputs(folder, case, inputs, outputs):
    """In a ring of two, each node sends as many bytes as are summed.

    Frozen layers need no gradient.
    """
    summed = 6 * 24 * (inputs + outputs) * 4  # steps × examples × units × bytes
    for worker in seen(folder, case):
        assert summed <= worker["sent"] <= summed + 20_000  # TensorFlow's own messages


def test_a_model_without_a_pair_is_refused_in_one_line(folder):
    assert failure(folder, "no_pair").endswith(
        ": has no two dense layers in a row that could be split"
    )


@pytest.mark.slow
def test_optimizers_that_need_whole_layers_are_refused_in_one_line(tmp_path, run_job):
    job = {"strategy": "tensor_parallel", "nodes": 1, "model": "net"}
    optimizers = [{"optimizer": "clipped"}, {"optimizer": "lamb"}]
    clipped, lamb = async_sgd_job.run_all(run_job, tmp_path, optimizers, **job)
    assert clipped["error"].startswith("the optimizer's clipnorm needs the gradients of all nodes")
    assert lamb["error"] == "the optimizer Lamb is not known to treat each weight for itself"


@pytest.mark.slow
def test_a_stuck_worker_is_not_waited_for_without_end(tmp_path, run_job):
    stuck = {"hit": 1, "hit_with": signal.SIGSTOP, "timeout_s": 4}
    job = {"strategy": "tensor_parallel", "nodes": 2, "model": "net", "optimizer": "adam"} | stuck
    (end,) = async_sgd_job.run_all(run_job, tmp_path, [job])
    assert end["error"] == "rank 0: ended with exit code 1 and no result"
    assert "Timeout (0:00:04)!" in (tmp_path / "rank~0.log").read_text()
    assert end["seconds"] < 2 * 4 + 3

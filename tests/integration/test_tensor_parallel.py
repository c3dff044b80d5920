"""Dense layers split over nodes: what is learnt and sent, what is refused, workers that go away.

That ten steps equal those of one process is tested with the other synchronous strategies.
"""

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
MODELS = ("normalised", "frozen", "embedded")
CASES = {
    **{f"{model}_1": ("single", 1, model, {}) for model in MODELS},
    **{f"{model}_{n}": ("tensor_parallel", n, model, {}) for model in MODELS for n in (2, 3)},
    "left": ("tensor_parallel", 2, "frozen", {}, 1),
    "no_pair": ("tensor_parallel", 1, "slow", {}),
}


def run(script, *arguments):
    command = [sys.executable, HERE / script, *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("tensor_parallel")
    run("pipeline_job.py", out, json.dumps(CASES))
    return out


def failure(folder, case):
    return (folder / case / "failure.txt").read_text()


def models(folder, case):
    """Return weights and moving statistics of each worker in the end."""
    assert not (folder / case / "failure.txt").exists(), failure(folder, case)
    return [list(np.load(path).values()) for path in sorted(folder.glob(f"{case}/model~*.npz"))]


def seen(folder, case):
    return [json.loads(path.read_text()) for path in sorted(folder.glob(f"{case}/seen~*.json"))]


@pytest.mark.parametrize("nodes", [2, 3])  # of 8 or 16 units, three nodes have 3 or 6 each
@pytest.mark.parametrize("model", MODELS)
def test_split_layers_train_like_one_process(folder, model, nodes):
    """Scores, statistics of batch normalisation and dropout included."""
    (expected,), found = models(folder, f"{model}_1"), models(folder, f"{model}_{nodes}")
    assert len(found) == nodes
    for worker in found:
        for mine, theirs, first in zip(worker, expected, found[0], strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
            np.testing.assert_array_equal(mine, first)
    scores = np.sum([one["scores"] for one in seen(folder, f"{model}_{nodes}")], axis=0)
    np.testing.assert_allclose(scores, seen(folder, f"{model}_1")[0]["scores"], rtol=1e-4)


@pytest.mark.parametrize(
    ("case", "inputs", "outputs"), [("frozen_2", 0, 4), ("embedded_2", 128, 4)]
)
def test_a_pair_sends_its_outputs_and_the_gradient_of_its_inputs(folder, case, inputs, outputs):
    """Of a ring of two each sends as many bytes as are summed; frozen layers want no gradient."""
    summed = 6 * 24 * (inputs + outputs) * 4  # steps × examples × units × bytes
    for worker in seen(folder, case):
        assert summed <= worker["sent"] <= summed + 20_000  # what TensorFlow says around it


def test_a_worker_that_ends_ends_the_job(folder):
    assert failure(folder, "left") == "rank 1: ended with exit code 7 and no result"


def test_a_model_without_a_pair_is_refused_in_one_line(folder):
    assert failure(folder, "no_pair").endswith(
        ": has no two dense layers in a row that could be split"
    )


def test_optimizers_that_need_whole_layers_are_refused_in_one_line(tmp_path):
    job = {"strategy": "tensor_parallel", "nodes": 1, "model": "net"}
    jobs = [job | {"optimizer": "clipped"}, job | {"optimizer": "lamb"}]
    clipped, lamb = json.loads(run("async_sgd_job.py", tmp_path, json.dumps(jobs)))
    assert clipped["error"].startswith("the optimizer's clipnorm needs the gradients of all nodes")
    assert lamb["error"] == "the optimizer Lamb is not known to treat each weight for itself"


def test_a_stuck_worker_is_not_waited_for_without_end(tmp_path):
    stuck = {"hit": 1, "hit_with": signal.SIGSTOP, "timeout_s": 4}
    job = {"strategy": "tensor_parallel", "nodes": 2, "model": "net", "optimizer": "adam"} | stuck
    (end,) = json.loads(run("async_sgd_job.py", tmp_path, json.dumps([job])))
    assert end["error"] == "rank 0: ended with exit code 1 and no result"
    assert "Timeout (0:00:04)!" in (tmp_path / "rank~0.log").read_text()
    assert end["seconds"] < 2 * 4 + 3

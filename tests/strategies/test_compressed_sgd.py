"""Three workers with compressed gradients have equal replicas, send few bytes and lose nothing."""

import numpy as np
import pytest
import training_job
from training_job import EXAMPLES, Case, linear_inputs, read, rows

from local_job import failure

NODES, RATE = 3, 0.5
DENSE = {"method": "top_k", "share": 1.0, "values": "float32"}
LINEAR = {
    "dense": DENSE,
    "float16": {"method": "float16"},
    "threshold": {"method": "threshold", "threshold": 0.5},
    "top_k": {"method": "top_k", "share": 0.05},
    "warm_up": DENSE | {"warmup_steps": 5, "warmup_nodes": 2},
}
RATIOS = {  # default options: how many times fewer bytes are sent
    "dense": (DENSE, 0.95),
    "float16": ({"method": "float16"}, 1.99),
    "threshold": ({}, 30),
    "top_k": ({"method": "top_k"}, 30),
}


def case(model, options, **more):
    return Case("compressed_sgd", NODES, model, options, "sgd", **more)


@pytest.fixture(scope="module")
def linear(tmp_path_factory, run_job):
    out = tmp_path_factory.mktemp("linear")
    cases = {name: case("linear", options, split=True) for name, options in LINEAR.items()}
    run_job(training_job.main, out, cases)
    return {name: read(out / name) for name in cases}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory, run_job):
    out = tmp_path_factory.mktemp("pictures")
    cases = {name: case("fashion_mlp", options) for name, (options, _) in RATIOS.items()}
    run_job(training_job.main, out, cases)
    return {name: read(out / name) for name in cases}


def own_means():
    """Return each worker's gradient in each step of the linear model, (workers, steps, inputs)."""
    parts = [linear_inputs()[:, rows(rank, NODES)] for rank in range(NODES)]
    return np.array([part.mean(axis=1) for part in parts])


def moved(done):
    """Return the change of the weights after each step, in units of gradients, (steps, inputs)."""
    weights = done.arrays[0]["weights"]
    return (weights[0] - weights[1:]) / RATE


@pytest.mark.parametrize("label", LINEAR)
def test_replicas_are_equal_bit_by_bit_and_the_split_form_does_the_same_again(linear, label):
    weights, split = linear[label].all("weights"), linear[label].all("split")
    assert np.abs(np.diff(weights[0], axis=0)).max(axis=1).all()
    assert (weights == weights[0]).all()
    np.testing.assert_allclose(split, weights[:, -1], atol=1e-4)


@pytest.mark.parametrize("label", ["dense", "float16", "threshold", "top_k"])
def test_what_was_not_applied_is_in_the_residuals(linear, label):
    """Weighted by examples, updates and residuals together equal the sum of all gradients."""
    examples = [len(rows(rank, NODES)) for rank in range(NODES)]
    residual = np.average(linear[label].all("residual"), axis=0, weights=examples)
    gradients = np.average(own_means().sum(axis=1), axis=0, weights=examples)
    np.testing.assert_allclose(moved(linear[label])[-1] + residual, gradients, atol=1e-4)
    assert (np.abs(residual).max() > 0.5) == (label in {"threshold", "top_k"})


def test_everything_sent_is_training_on_the_mean_over_all_examples(linear):
    expected = linear_inputs().mean(axis=1).cumsum(axis=0)
    np.testing.assert_allclose(moved(linear["dense"]), expected, atol=1e-4)


def test_at_first_only_the_updates_of_some_nodes_count(linear):
    """The first five steps use the mean over two nodes' examples, the others that over all."""
    two = EXAMPLES - len(rows(2, NODES))
    some = linear_inputs()[:5, :two].mean(axis=1)
    expected = np.concatenate([some, linear_inputs()[5:].mean(axis=1)]).cumsum(axis=0)
    np.testing.assert_allclose(moved(linear["warm_up"]), expected, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("label", RATIOS)
def test_it_learns_with_few_bytes_which_are_those_on_the_wire(pictures, label):
    done = pictures[label]
    weights, losses = done.all("weights"), done.losses()
    for worker in done.seen:
        counted = worker["observed"]["bytes_counted"]
        assert len(counted) == len(losses)
        assert sum(counted) == pytest.approx(worker["sent"], rel=0.02)
    assert (weights == weights[0]).all()
    dense = (NODES - 1) * 4 * weights.shape[-1]
    assert dense / np.mean(done.seen[0]["observed"]["bytes_counted"]) > RATIOS[label][1]
    assert losses[-5:].mean() < 0.9 * losses[:5].mean()


@pytest.mark.slow
def test_a_worker_whose_gradient_is_not_finite_says_so_and_ends(tmp_path, run_job):
    run_job(training_job.main, tmp_path, {"job": case("infinite_linear", {})})
    assert failure(tmp_path / "job")
    log = (tmp_path / "job/rank~1.log").read_text()
    assert "FloatingPointError: the gradient is not finite" in log

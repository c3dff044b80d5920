"""Three workers with compressed gradients have equal replicas, send few bytes and lose nothing.

The workers are real processes, each connected to all others; see compressed_job.py.
"""

import compressed_job
import numpy as np
import pytest
from compressed_job import EXAMPLES, NODES, RATE, STEPS, inputs

from nodewise.data import synthetic

DENSE = {"method": "top_k", "share": 1.0, "values": "float32"}
OPTIONS = {
    "dense": DENSE,
    "float16": {"method": "float16"},
    "threshold": {"method": "threshold", "threshold": 0.5},
    "top_k": {"method": "top_k", "share": 0.05},
    "warm_up": DENSE | {"warmup_steps": 5, "warmup_nodes": 2},
}
PICTURES = {
    "dense": DENSE,
    "float16": {"method": "float16"},
    "threshold": {},
    "top_k": {"method": "top_k"},
}


def trained(run_job, what, out, options):
    """Train; return label -> what each worker saved."""
    run_job(compressed_job.main, what, out, options)
    return {
        label: [dict(np.load(out / f"{label}~{rank}.npz")) for rank in range(NODES)]
        for label in options
    }


@pytest.fixture(scope="module")
def linear(tmp_path_factory, run_job):
    return trained(run_job, "linear", tmp_path_factory.mktemp("linear"), OPTIONS)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory, run_job):
    out = tmp_path_factory.mktemp("pictures")
    x, y = synthetic.draw(
        (28, 28, 1), 10, STEPS * NODES * 32, seed=1, split=0, advance=lambda made: None
    )
    np.savez(out / "pictures.npz", x=x, y=y)
    return trained(run_job, "pictures", out, PICTURES)


def own_means():
    """Return each worker's gradient in each step of a linear model, (workers, steps, inputs).

    The loss of this model is its output, so its gradient is the mean of its inputs.
    """
    parts = np.split(inputs(), np.cumsum(EXAMPLES)[:-1], axis=1)
    return np.array([part.mean(axis=1) for part in parts])


def moved(workers):
    """Return the change of the weights after each step, in units of gradients, (steps, inputs)."""
    weights = workers[0]["weights"].astype(np.float64)
    return (weights[0] - weights[1:]) / RATE


@pytest.mark.parametrize("label", OPTIONS)
def test_replicas_are_equal_bit_by_bit_and_the_split_form_does_the_same_again(linear, label):
    first = linear[label][0]
    assert np.abs(np.diff(first["weights"], axis=0)).max(axis=1).all()
    for worker in linear[label]:
        np.testing.assert_array_equal(first["weights"], worker["weights"])
        np.testing.assert_allclose(worker["again"], worker["weights"][-1], atol=1e-4)


@pytest.mark.parametrize("label", ["dense", "float16", "threshold", "top_k"])
def test_what_was_not_applied_is_in_the_residuals(linear, label):
    """Weighted by examples, updates and residuals together equal the sum of all gradients."""
    residual = np.average([w["residual"] for w in linear[label]], axis=0, weights=EXAMPLES)
    gradients = np.average(own_means().sum(axis=1), axis=0, weights=EXAMPLES)
    np.testing.assert_allclose(moved(linear[label])[-1] + residual, gradients, atol=1e-4)
    assert (np.abs(residual).max() > 0.5) == (label in {"threshold", "top_k"})


def test_everything_sent_is_training_on_the_mean_over_all_examples(linear):
    expected = inputs().mean(axis=1).cumsum(axis=0)
    np.testing.assert_allclose(moved(linear["dense"]), expected, atol=1e-4)


def test_at_first_only_the_updates_of_some_nodes_count(linear):
    """The first five steps use the mean over two nodes' examples, the others that over all."""
    some = inputs()[:5, : sum(EXAMPLES[:2])].mean(axis=1)
    expected = np.concatenate([some, inputs()[5:].mean(axis=1)]).cumsum(axis=0)
    np.testing.assert_allclose(moved(linear["warm_up"]), expected, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("label", "ratio"), [("dense", 0.95), ("float16", 1.99), ("threshold", 30), ("top_k", 30)]
)
def test_it_learns_with_few_bytes_which_are_those_on_the_wire(pictures, label, ratio):
    workers = pictures[label]
    for worker in workers:
        assert len(worker["counted"]) == STEPS
        assert worker["counted"].sum() == pytest.approx(worker["sent"], rel=0.02)
        np.testing.assert_array_equal(worker["weights"], workers[0]["weights"])
    dense = (NODES - 1) * workers[0]["weights"].nbytes
    assert dense / workers[0]["counted"].mean() > ratio
    losses = np.mean([worker["losses"] for worker in workers], axis=0)
    assert losses[-5:].mean() < 0.9 * losses[:5].mean()


@pytest.mark.slow
def test_a_worker_whose_gradient_is_not_finite_says_so_and_ends(tmp_path, launch):
    assert launch(compressed_job.main, "infinite", tmp_path, {"threshold": {}}).error
    said = "FloatingPointError: the gradient is not finite"
    assert said in (tmp_path / "rank~1.log").read_text()

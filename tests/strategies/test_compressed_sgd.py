"""A codec decodes what it encoded, in few bytes; three workers that use it lose nothing."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from training_job import EXAMPLES, Case, linear_inputs, rows, train, train_all

from local_job import failure, train_cases
from nodewise.strategies.compressed_sgd.compression import (
    Half,
    TopK,
    decode_indices,
    encode_indices,
)

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
    cases = {name: case("linear", options, split=True) for name, options in LINEAR.items()}
    return train_all(run_job, tmp_path_factory.mktemp("linear"), cases)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory, run_job):
    cases = {name: case("fashion_mlp", options) for name, (options, _) in RATIOS.items()}
    return train_all(run_job, tmp_path_factory.mktemp("pictures"), cases)


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
    parts = [rows(rank, NODES) for rank in range(NODES)]
    examples = list(map(len, parts))
    residual = np.average(linear[label].all("residual"), axis=0, weights=examples)
    sums = [linear_inputs()[:, part].mean(axis=1).sum(axis=0) for part in parts]  # over the steps
    gradients = np.average(sums, axis=0, weights=examples)
    np.testing.assert_allclose(moved(linear[label])[-1] + residual, gradients, atol=1e-4)
    assert (np.abs(residual).max() > 0.5) == (label in {"threshold", "top_k"})


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
    run_job(train_cases, tmp_path, {"job": case("infinite_linear", {})}, train)
    assert failure(tmp_path / "job")
    log = (tmp_path / "job/rank~1.log").read_text()
    assert "FloatingPointError: the gradient is not finite" in log


# --- the codec ---


@st.composite
def index_sets(draw):
    """Draw a size and sorted indices below it: spread out, dense, or all in one place."""
    size = draw(st.integers(1, 20_000))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    within = max(1, round(size * draw(st.sampled_from([1.0, 0.3, 0.01]))))
    count = round(within * draw(st.sampled_from([0, 0.0005, 0.01, 0.1, 0.5, 0.9, 1.0])))
    start = draw(st.integers(0, size - within))
    return size, np.sort(random.choice(within, count, replace=False)) + start


@st.composite
def gradients(draw):
    size = draw(st.integers(1, 3_000))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    scale = draw(st.sampled_from([1e-12, 1e-4, 1.0, 1e6]))
    return (random.normal(size=size) * random.exponential(scale, size)).astype(np.float32)


def dense(update, size):
    values = np.zeros(size, np.float32)
    values[update.indices] = update.values
    return values


@given(index_sets())
@example((1, np.array([0])))
@example((2**32 - 1, np.array([2**32 - 2])))
def test_indices_come_back(drawn):
    size, indices = drawn
    code = encode_indices(indices, size)
    np.testing.assert_array_equal(decode_indices(code, len(indices), size), indices)


@given(index_sets())
def test_indices_take_less_than_a_bit_more_than_the_entropy(drawn):
    """There are C(size, count) sets of indices: no code can need fewer bits than its logarithm."""
    size, indices = drawn
    count = len(indices)
    entropy = (
        math.lgamma(size + 1) - math.lgamma(count + 1) - math.lgamma(size - count + 1)
    ) / math.log(2)
    padding = 2 * 7
    assert 8 * len(encode_indices(indices, size)) <= entropy + count + padding


@given(gradients(), st.sampled_from([0.01, 0.3]))
def test_top_k_sends_the_largest_entries(gradient, share):
    codec = TopK(len(gradient), share, "float32")
    update = codec.decode(codec.encode(gradient))
    assert len(update.indices) == max(1, round(share * len(gradient)))
    np.testing.assert_array_equal(update.values, gradient[update.indices])
    left = np.delete(np.abs(gradient), update.indices)
    assert left.max(initial=0) <= np.abs(update.values).min()


@pytest.mark.parametrize("scale", [1e-30, 1e-9, 1e-5, 1.0, 1e9, 1e37])
def test_float16_keeps_eleven_bits_at_any_scale(scale):
    values = np.random.default_rng(1).uniform(0.001, 1, 1_000).astype(np.float32) * scale
    for codec in (Half(1_000), TopK(1_000, 1.0, "float16")):
        sent = dense(codec.decode(codec.encode(values)), 1_000)
        np.testing.assert_allclose(sent, values, rtol=2**-11)

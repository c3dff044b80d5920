"""A codec decodes exactly what it encoded, in few bytes."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nodewise.strategies.compressed_sgd.compression import (
    Half,
    TopK,
    decode_indices,
    encode_indices,
)


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

"""IDX files: what is written is read back; anything else is refused."""

import gzip
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.data.formats import idx

IMAGES = st.tuples(st.integers(1, 5), st.integers(1, 6), st.integers(1, 6), st.just(1))
SHAPES = st.one_of(IMAGES, st.tuples(st.integers(1, 50)))


def sample(shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def test_header_of_the_mnist_training_images():
    assert idx.header((60_000, 28, 28, 1)).hex() == "000008030000ea600000001c0000001c"
    assert idx.header((60_000,)).hex() == "000008010000ea60"
    assert idx.size((60_000, 28, 28, 1)) == 47_040_016


@given(SHAPES, st.integers(0, 9))
def test_what_is_written_is_read(shape, seed):
    array = sample(shape, seed)
    content = idx.header(shape) + array.tobytes()
    assert len(content) == idx.size(shape)
    assert np.array_equal(idx.parse(content, shape), array)


@given(SHAPES, st.data())
def test_a_changed_length_or_header_is_refused(shape, data):
    content = idx.header(shape) + sample(shape).tobytes()
    cut = data.draw(st.integers(0, len(content) - 1))
    with pytest.raises(ValueError):
        idx.parse(content[:cut], shape)
    with pytest.raises(ValueError):
        idx.parse(content + b"\0", shape)
    at = data.draw(st.integers(0, len(idx.header(shape)) - 1))
    flipped = bytes([content[at] ^ 1])
    with pytest.raises(ValueError):
        idx.parse(content[:at] + flipped + content[at + 1 :], shape)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_give_an_array_or_a_value_error(content):
    try:
        array = idx.parse(content, (2, 3, 4, 1))
    except ValueError:
        return
    assert array.shape == (2, 3, 4, 1)


def test_messages_say_what_was_expected():
    labels = struct.pack(">II", 0x801, 3) + b"\0\1\2"
    with pytest.raises(ValueError, match="magic number 0x00000801, expected 0x00000803"):
        idx.parse(labels, (3, 2, 2, 1))
    with pytest.raises(ValueError, match="dimensions 3, expected 4"):
        idx.parse(labels, (4,))
    with pytest.raises(ValueError, match="10 bytes, expected 11"):
        idx.parse(labels[:-1], (3,))
    with pytest.raises(ValueError, match=r"magic number 0x1f8b\w+, expected 0x00000801"):
        idx.parse(gzip.compress(labels), (3,))

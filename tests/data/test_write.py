"""Users' arrays are checked, written as a whole and read back unchanged."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as drawn

from mistakes import user_error
from nodewise.core.errors import RefusedError
from nodewise.data import load
from nodewise.data.prepared import check_arrays, write
from nodewise.data.structures import Ragged, flat


def written(out, train, test=None):
    return write(out, train, test, dataset="mine", title="Mine", origin="own")


def structures(examples):
    """Return a Hypothesis strategy of nested tuples and dicts of arrays of `examples` rows."""
    kinds = st.one_of(
        drawn.boolean_dtypes(),
        drawn.integer_dtypes(),
        drawn.unsigned_integer_dtypes(),
        drawn.floating_dtypes(sizes=(16, 32, 64)),
        drawn.byte_string_dtypes(max_len=4),
    )
    shapes = drawn.array_shapes(min_dims=0, max_dims=2, max_side=3)
    array = st.tuples(kinds, shapes).flatmap(
        lambda told: drawn.arrays(told[0], (examples, *told[1]))
    )
    return st.recursive(
        array,
        lambda part: st.one_of(
            st.lists(part, min_size=1, max_size=3).map(tuple),
            st.dictionaries(st.text(max_size=5), part, min_size=1, max_size=3),
        ),
        max_leaves=5,
    )


@given(st.data())
def test_own_structures_are_read_as_they_were_written(tmp_path_factory, data):
    out = tmp_path_factory.getbasetemp() / "structures"
    examples, tested = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    train = data.draw(structures(examples))
    test = data.draw(st.one_of(st.none(), structures(tested)))
    manifest = written(out, train, test)
    read = load(out / "manifest.json")
    assert check_arrays(out / "manifest.json") == read.manifest == manifest
    assert read.train_examples == manifest.train_examples == examples
    assert read.test_examples == manifest.test_examples == (0 if test is None else tested)
    assert (read.test is None) == (test is None)
    for given_, found in ((train, read.train), (test, read.test)):
        for (path, array), (place, stored) in zip(flat(given_), flat(found), strict=True):
            assert path == place
            np.testing.assert_array_equal(array, stored)
            assert array is None or array.dtype.newbyteorder("=") == stored.dtype


@pytest.mark.parametrize(
    ("train", "told"),
    [
        (np.zeros(3, "complex64"), "dtype"),
        (np.zeros((3, 0)), "shape"),
        ((np.zeros(3), np.array([{}] * 3)), "dtype"),
    ],
)
def test_own_arrays_that_cannot_be_stored(tmp_path, train, told):
    assert told in user_error(written, tmp_path / "out", train)
    assert not (tmp_path / "out").exists()


def digest_of(out, train, test=None):
    return written(out, train, test).sha256


def test_the_digest_of_own_arrays_tells_them_and_their_places(tmp_path):
    some, other = np.arange(3), np.ones((3, 2))
    splits = np.array([0, 1, 2, 3]), np.array([0, 0, 1, 3])
    sets = [
        ((other, some), None),
        ((other, some), (other, some)),
        ((other, some + 1), None),
        (({"a": other}, some), None),
        (({"b": other}, some), None),
        ((Ragged(some, splits[:1]),), None),
        ((Ragged(some, splits[1:]),), None),
        ((Ragged(some, splits),), None),
    ]
    assert len({digest_of(tmp_path, *one) for one in sets}) == len(sets)
    turned = np.asfortranarray(other.astype(">f8")), some
    assert digest_of(tmp_path, turned) == digest_of(tmp_path, (other, some))


def test_a_refusal_is_what_loading_says(tmp_path):
    written(tmp_path, np.zeros(3))
    about = {"dataset": "mine", "title": "Mine", "origin": "own"}
    write(tmp_path, None, None, refused="mine.py:load: no", **about)
    assert check_arrays(tmp_path / "manifest.json").train_examples == 0
    with pytest.raises(RefusedError, match=r"^mine\.py:load: no$"):
        load(tmp_path / "manifest.json")

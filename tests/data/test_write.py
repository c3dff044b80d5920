"""Users' arrays are checked, written as a whole and read back unchanged."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as drawn

from mistakes import user_error
from nodewise.core.errors import RefusedError, UserError
from nodewise.data import load
from nodewise.data.prepared import Arrays, check_arrays, write, write_own, write_refusal
from nodewise.data.structures import Ragged, flat


def arrays(kind="float32", shape=(3,), train=6, test=4, classes=3):
    rng = np.random.default_rng(1)

    def part(n):
        x = (rng.random((n, *shape)) * 100).astype(kind)
        return x, (np.arange(n) % classes).astype(np.uint8)

    return Arrays(*part(train), *part(test))


def written(out, made, **changes):
    told = {"dataset": "mine", "origin": "generated", "seed": 1, "title": "Mine"}
    return write(out, made, **(told | {"classes": ("a", "b", "c")} | changes))


@given(
    st.sampled_from(["uint8", "uint16", "int32", "float32", ">i4", ">f4"]),
    st.lists(st.integers(1, 4), max_size=4).map(tuple),
    st.integers(1, 9),
    st.integers(1, 9),
)
def test_what_is_written_is_read(tmp_path_factory, kind, shape, train, test):
    out = tmp_path_factory.getbasetemp() / "own"
    made = arrays(kind, shape, train, test)
    manifest = written(out, made)
    data = load(out / "manifest.json")
    assert data.manifest == manifest
    assert (manifest.licence, manifest.licence_url) == (None, None)
    assert manifest.files == ()
    for name, array in made._asdict().items():
        assert np.array_equal(getattr(data, name), array)
        assert getattr(data, name).dtype == array.dtype.newbyteorder("=")


def test_arrays_in_any_memory_order_are_the_same(tmp_path):
    made = arrays(shape=(4, 5))
    turned = made._replace(x_train=np.asfortranarray(made.x_train), x_test=made.x_test[::-1][::-1])
    assert written(tmp_path, turned) == written(tmp_path, made)
    assert load(tmp_path / "manifest.json").x_train.flags.c_contiguous


def test_the_digest_tells_every_change(tmp_path):
    made = arrays("int32", (4,))
    digests = [written(tmp_path, made).sha256]
    for name in made._fields:
        array = getattr(made, name).copy()
        array.flat[0] = 2 - array.flat[0]
        digests.append(written(tmp_path, made._replace(**{name: array})).sha256)
    other = made._replace(
        x_train=made.x_train.view(np.float32), x_test=made.x_test.view(np.float32)
    )
    digests.append(written(tmp_path, other).sha256)
    flat = made._replace(x_train=made.x_train.reshape(6, 2, 2), x_test=made.x_test.reshape(4, 2, 2))
    digests.append(written(tmp_path, flat).sha256)
    assert len(set(digests)) == len(digests)


GOOD = arrays()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"x_test": GOOD.x_test[:, :2]}, "training examples are float32 of 3, test examples"),
        ({"x_test": GOOD.x_test.astype(np.int32)}, "they must be alike"),
        ({"y_train": GOOD.y_train[:-1]}, "y_train is uint8 of 5, expected uint8 of 6"),
        ({"y_test": GOOD.y_test.astype(np.int64)}, "y_test is int64 of 4, expected uint8 of 4"),
        ({"y_test": GOOD.y_test + np.uint8(1)}, "y_test: label 3, expected 0 … 2"),
        ({"x_test": GOOD.x_test[:0], "y_test": GOOD.y_test[:0]}, "x_test has no examples"),
        ({"x_test": np.full_like(GOOD.x_test, np.nan)}, "x_test has numbers that are not finite"),
    ],
)
def test_arrays_that_are_no_dataset(tmp_path, change, told):
    line = user_error(written, tmp_path / "out", GOOD._replace(**change))
    assert line.startswith("mine: ")
    assert told in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("kind", "changes", "told"),
    [
        ("float64", {}, "dtype"),
        ("float32", {"dataset": "../x"}, "dataset"),
        ("float32", {"title": ""}, "title"),
        ("float32", {"classes": tuple(map(str, range(257)))}, "classes"),
        ("float32", {"origin": "official"}, "files"),
        ("float32", {"origin": "own"}, "origin"),
        ("float32", {"seed": None}, "seed"),
    ],
)
def test_a_manifest_that_cannot_be(tmp_path, kind, changes, told):
    assert told in user_error(written, tmp_path / "out", arrays(kind), **changes)
    assert not (tmp_path / "out").exists()


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
    manifest = write_own(out, train, test, dataset="mine", title="Mine")
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
    assert told in user_error(
        write_own, tmp_path / "out", train, None, dataset="mine", title="Mine"
    )
    assert not (tmp_path / "out").exists()


def digest_of(out, train, test=None):
    return write_own(out, train, test, dataset="mine", title="Mine").sha256


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


def test_a_ragged_array_is_read_as_it_was_written(tmp_path):
    ragged = Ragged(np.array([b"a", b"bc"]), (np.array([0, 2, 2]), np.array([0, 1, 2])))
    write_own(tmp_path, (ragged, np.arange(2)), None, dataset="mine", title="Mine")
    read, _ = load(tmp_path / "manifest.json").train
    np.testing.assert_array_equal(read.values, ragged.values)
    for level, splits in zip(read.row_splits, ragged.row_splits, strict=True):
        np.testing.assert_array_equal(level, splits)
    path = tmp_path / "train_0_splits_1.npy"
    path.write_bytes(path.read_bytes()[:-8] + b"\1" * 8)
    with pytest.raises(UserError, match=r"train_0_splits_1\.npy: changed since it was prepared"):
        check_arrays(tmp_path / "manifest.json")


def test_a_refusal_is_what_loading_says(tmp_path):
    write_own(tmp_path, np.zeros(3), None, dataset="mine", title="Mine")
    write_refusal(tmp_path, dataset="mine", title="Mine", reason="mine.py:load: no")
    assert check_arrays(tmp_path / "manifest.json").train_examples == 0
    with pytest.raises(RefusedError, match=r"^mine\.py:load: no$"):
        load(tmp_path / "manifest.json")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"train": []}, "train_examples: a training set has some"),
        ({"test_examples": 3}, "test_examples: a test set has some"),
        ({"refused": "why"}, "refused: data without a training set is"),
        ({"path": [1]}, "neither the indices of a tuple nor the keys of a dict"),
        ({"path": []}, "not enough values"),
        ({"file": "../a_0.npy"}, "train[0].file"),
        ({"dtype": "object"}, "train[0].dtype"),
        ({"dtype": "float32"}, "train_0.npy: not float32"),
        ({"shape": [2]}, "shape: not all arrays have 3 examples"),
        ({"shape": [3, 2]}, "train_0.npy: not float64"),
    ],
)
def test_an_own_manifest_that_contradicts_itself_or_its_arrays(tmp_path, change, told):
    write_own(tmp_path, (np.zeros(3), np.ones(3)), None, dataset="mine", title="Mine")
    path = tmp_path / "manifest.json"
    manifest = json.loads(path.read_text())
    (manifest["train"][0] if set(change) & set(manifest["train"][0]) else manifest).update(change)
    path.write_text(json.dumps(manifest))
    assert told in user_error(load, path)

"""Arrays are checked, written as a whole and read back unchanged if they match their manifest.

They are loaded memory-mapped and read-only.
"""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as drawn

import make_datasets
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
    of_test = ((), read.test or ()) if test is None else (test, read.test)
    for given_, found in ((train, read.train), of_test):
        for (path, array), (place, stored) in zip(flat(given_), flat(found), strict=True):
            assert path == place
            np.testing.assert_array_equal(array, stored)
            assert array.dtype.newbyteorder("=") == stored.dtype


def test_an_array_without_numbers_cannot_be_stored(tmp_path):
    assert "shape" in user_error(written, tmp_path / "out", np.zeros((3, 0)))
    assert not (tmp_path / "out").exists()


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
    assert len({written(tmp_path, *one).sha256 for one in sets}) == len(sets)
    turned = np.asfortranarray(other.astype(">f8")), some
    assert written(tmp_path, turned).sha256 == written(tmp_path, (other, some)).sha256


def test_a_refusal_is_what_loading_says(tmp_path):
    written(tmp_path, np.zeros(3))
    about = {"dataset": "mine", "title": "Mine", "origin": "own"}
    write(tmp_path, None, None, refused="mine.py:load: no", **about)
    assert check_arrays(tmp_path / "manifest.json").train_examples == 0
    with pytest.raises(RefusedError, match=r"^mine\.py:load: no$"):
        load(tmp_path / "manifest.json")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    sample = make_datasets.Sample(tmp_path_factory.mktemp("prepared"))
    sample.prepare(source="official")
    return sample.out


@pytest.fixture
def manifest(prepared, tmp_path):
    for path in prepared.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path / "manifest.json"


def test_arrays_are_memory_mapped_and_read_only(manifest):
    data = load(manifest)
    for array in (*data.train, *data.test):
        assert isinstance(array, np.memmap)
        assert array.dtype == np.uint8
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def changed(**change):
    """Return what changes a manifest, or the entry of its first array."""

    def damage(manifest):
        content = json.loads(manifest.read_text())
        first = content["train"][0]
        (first if change.keys() <= first.keys() else content).update(change)
        manifest.write_text(json.dumps(content))

    return damage


def stored(array):
    return lambda manifest: np.save(manifest.with_name("test_1.npy"), array, allow_pickle=True)


def cut(at):
    def damage(manifest):
        path = manifest.with_name("test_0.npy")
        path.write_bytes(path.read_bytes()[:at])

    return damage


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda manifest: manifest.unlink(), "manifest.json: cannot be read"),
        (lambda manifest: manifest.write_text("{"), "manifest.json: "),
        (lambda manifest: manifest.with_name("test_1.npy").unlink(), "test_1.npy"),
        (changed(colour="red"), "colour"),
        (changed(dataset="../x"), "dataset"),
        (changed(dtype="uint16"), "train_0.npy"),
        (changed(shape=[59, 28, 28, 1]), "train_0.npy"),
        (changed(file="../train_0.npy"), "train[0].file"),
        *((cut(at), "test_0.npy") for at in (0, 6, -1)),
        (stored(np.zeros(20, np.int64)), "test_1.npy"),
        (stored(np.zeros((20, 1), np.uint8)), "test_1.npy"),
        (stored(np.array([{}] * 20, dtype=object)), "test_1.npy"),
    ],
)
def test_a_manifest_and_arrays_that_do_not_fit_each_other(manifest, damage, told):
    damage(manifest)
    assert told in user_error(load, manifest)

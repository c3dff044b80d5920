"""Writing arrays of one's own: checked, whole, and read back as they were."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.core.errors import UserError
from nodewise.data import load
from nodewise.data.prepared import Arrays, write


def arrays(kind="float32", shape=(3,), train=6, test=4, classes=3):
    rng = np.random.default_rng(1)

    def part(n):
        x = (rng.random((n, *shape)) * 100).astype(kind)
        return x, (np.arange(n) % classes).astype(np.uint8)

    return Arrays(*part(train), *part(test))


def written(out, made, **changes):
    told = {"dataset": "mine", "origin": "own", "title": "Mine", "classes": ("a", "b", "c")}
    return write(out, made, **(told | changes))


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
    assert (manifest.origin, manifest.licence, manifest.licence_url) == ("own", None, None)
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
    with pytest.raises(UserError) as caught:
        written(tmp_path / "out", GOOD._replace(**change))
    assert str(caught.value).startswith("mine: ")
    assert told in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("kind", "changes", "told"),
    [
        ("float64", {}, "dtype"),
        ("float32", {"dataset": "../x"}, "dataset"),
        ("float32", {"title": ""}, "title"),
        ("float32", {"classes": tuple(map(str, range(257)))}, "classes"),
        ("float32", {"origin": "official"}, "files"),
        ("float32", {"origin": "generated"}, "seed"),
        ("float32", {"seed": 1}, "seed"),
    ],
)
def test_a_manifest_that_cannot_be(tmp_path, kind, changes, told):
    with pytest.raises(UserError) as caught:
        written(tmp_path / "out", arrays(kind), **changes)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_dataset_that_cannot_be_written_is_not_half_replaced(tmp_path, monkeypatch):
    written(tmp_path, arrays())
    saved = []

    def full_disk(file, array, allow_pickle):
        if saved:
            raise OSError(28, "No space left on device")
        saved.append(file)

    monkeypatch.setattr(np, "save", full_disk)
    with pytest.raises(OSError, match="No space left"):
        written(tmp_path, arrays(train=7))
    with pytest.raises(UserError, match="cannot be read"):
        load(tmp_path / "manifest.json")

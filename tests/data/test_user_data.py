"""A user's own arrays: what is written of them, and what is said of those that cannot be used."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from nodewise import data as datasets
from nodewise.core.errors import UserError
from nodewise.core.user_function import own_dataset_name
from nodewise.data import user_data
from nodewise.data.prepared import TYPES


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def x(examples=6, dtype="uint8", shape=(4, 4, 1)):
    return np.arange(examples * np.prod(shape)).reshape(examples, *shape).astype(dtype)


def y(*labels):
    return np.array(labels or (0, 1, 2, 0, 1, 2))


def prepare(tmp_path, monkeypatch, returned):
    """Prepare a dataset whose `load` returns the given value."""
    (tmp_path / "mine.py").write_text("def load(): ...\n")
    monkeypatch.setattr(user_data.Function, "__call__", lambda self: returned)
    return user_data.prepare("mine.py:load", tmp_path / "out")


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32", "float32"])
def test_arrays_are_written_as_they_are(tmp_path, monkeypatch, dtype):
    train, test = (x(dtype=dtype), y()), (x(3, dtype), y(0, 1, 2))
    manifest = prepare(tmp_path, monkeypatch, (train, test))
    data = datasets.load(tmp_path / "out/manifest.json")
    assert data.manifest == manifest
    assert manifest.origin == "own"
    assert manifest.dataset == own_dataset_name("mine.py:load")
    assert manifest.classes == ("0", "1", "2")
    assert (manifest.licence, manifest.licence_url, manifest.seed) == (None, None, None)
    for written, given_ in zip((data.x_train, data.x_test), (train[0], test[0]), strict=True):
        assert written.dtype == dtype
        np.testing.assert_array_equal(written, given_)
    np.testing.assert_array_equal(data.y_train, train[1])
    assert data.y_train.dtype == np.uint8


def test_labels_in_a_column_are_labels(tmp_path, monkeypatch):
    prepare(tmp_path, monkeypatch, ((x(), y()[:, None]), (x(), y())))
    assert datasets.load(tmp_path / "out/manifest.json").y_train.shape == (6,)


def test_another_byte_order_or_memory_order_makes_no_difference(tmp_path, monkeypatch):
    plain = prepare(tmp_path, monkeypatch, ((x(dtype="int32"), y()), (x(dtype="int32"), y())))
    turned = np.asfortranarray(x(dtype=">i4"))
    assert prepare(tmp_path, monkeypatch, ((turned, y()), (turned, y()))) == plain


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (None, "must return ((x_train, y_train), (x_test, y_test)), or (train, test)"),
        ((1, 2, 3), "not a tuple of 3"),
        (((x(), y()), None), "test: must be (x, y) or a tf.data.Dataset, not nothing"),
        (((x(), y(), y()), (x(), y())), "train: must be (x, y)"),
        (((x().tolist(), y()), (x(), y())), "train: x must be a NumPy array, not a list"),
        (((x(), y().tolist()), (x(), y())), "train: y must be a NumPy array, not a list"),
        (((x(5), y()), (x(), y())), "x is (5, 4, 4, 1), y is (6,)"),
        (((x(0), y()[:0]), (x(), y())), "at least one example"),
        (((x(dtype="float64"), y()), (x(), y())), "not float64; convert it: x.astype('float32')"),
        (((x(dtype="int64"), y()), (x(), y())), "not int64; convert it: x.astype('int32')"),
        (((x(dtype="str"), y()), (x(), y())), "x must be of uint8, uint16, int32, float32"),
        (((x(), y().astype(float)), (x(), y())), "y must be (examples,) of integers, not (6,)"),
        (((x(), np.eye(6, dtype=int)), (x(), y())), "of one-hot rows take y.argmax(axis=1)"),
        (((x(), y(-1, 0, 1, 2, 0, 0)), (x(), y())), "must be 0 to 255; they are -1 to 2"),
        (((x(), y(0, 1, 2, 3, 4, 256)), (x(), y())), "must be 0 to 255; they are 0 to 256"),
        (((x(), y() * 0), (x(), y() * 0)), "all labels are 0"),
        (((x(), y()), (x(shape=(5, 4, 1)), y())), "must be alike"),
        (((x(), y()), (x(dtype="int32"), y())), "must be alike"),
        (((x(dtype="float32") * np.nan, y()), (x(dtype="float32"), y())), "not finite"),
    ],
)
def test_what_cannot_be_used_is_told_in_one_line(tmp_path, monkeypatch, returned, said):
    with pytest.raises(UserError) as caught:
        prepare(tmp_path, monkeypatch, returned)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out/manifest.json").exists()


ANY_ARRAY = arrays.arrays(
    st.sampled_from([np.uint8, np.int8, np.int32, np.int64, np.float32, np.float64, np.bool_]),
    arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)


@given(ANY_ARRAY, ANY_ARRAY)
def test_any_arrays_are_labelled_examples_or_refused(some_x, some_y):
    try:
        part = user_data._part("mine", (some_x, some_y))
    except UserError:
        return
    assert len(part.x) == len(part.y) > 0
    assert part.x.dtype.name in TYPES
    assert (part.y.dtype, part.y.ndim) == (np.uint8, 1)

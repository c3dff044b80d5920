"""Users' own data: everything that `fit` accepts is kept as `fit` would use it, or refused."""

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from mistakes import user_error
from nodewise import data as datasets
from nodewise.data import user_data
from nodewise.data.structures import Ragged, flat

EXAMPLES = 10
ROWS = np.arange(EXAMPLES)


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def prepare(tmp_path, monkeypatch):
    """Return a function that prepares a dataset whose `load` returns the given value."""
    (tmp_path / "mine.py").write_text("def load(): ...\n")

    def prepare(returned):
        monkeypatch.setattr(user_data.Function, "__call__", lambda self: returned)
        return user_data.prepare("mine.py:load", tmp_path / "out")

    return prepare


def x(dtype="float32", width=3):
    return (np.arange(EXAMPLES * width) % 100).reshape(EXAMPLES, width).astype(dtype)


class Batches(keras.utils.PyDataset):
    """Batches of 4, 4 and 2 examples."""

    def __init__(self, *arrays, **options):
        super().__init__(**options)
        self.arrays = arrays

    def __len__(self):
        return 3

    def __getitem__(self, index):
        return tuple(array[4 * index : 4 * index + 4] for array in self.arrays)


class WithoutWeights(Batches):
    """Batches whose sample weights are None."""

    def __getitem__(self, index):
        return (*super().__getitem__(index), None)


def sliced(*parts):
    return tf.data.Dataset.from_tensor_slices(parts)


SETS = {
    "regression": (x("float64"), np.linspace(-1, 1, EXAMPLES)),
    "labels of 256 and above, or negative": (x("int64"), ROWS * 1000 - 1),
    "labels of a column": (x("uint8"), ROWS[:, None].astype("uint8")),
    "multi-label": (x("int8"), x("bool")),
    "images and masks": (np.zeros((EXAMPLES, 4, 4, 3), "float16"), np.ones((EXAMPLES, 4, 4, 1))),
    "sample weights": (x(), ROWS, np.linspace(0, 1, EXAMPLES)),
    "x alone": (x(),),
    "inputs by name": ({"image": x(), "age": ROWS}, {"b": ROWS, "a": x("int64")}),
    "nested lists and tuples": ([x(), (x("int32"), {"z": ROWS})], [ROWS, ROWS * 1.0]),
    "strings": (np.array([f"é{n}" for n in ROWS]), np.array(["no", "yes"] * 5, object)),
    "pandas": (pd.DataFrame({"a": ROWS, "b": ROWS * 0.5}), pd.Series(ROWS)),
    "tensors": (tf.constant(x("float64")), tf.constant(ROWS)),
    "ragged": (tf.ragged.constant([[1], [2, 3]] * 5), {"a": tf.ragged.constant([[0.5], []] * 5)}),
    "ragged strings in ragged rows": (tf.ragged.constant([[["a", "bc"], []], []] * 5), ROWS),
    "tf.data of ragged vectors": sliced(
        tf.RaggedTensor.from_row_lengths(x(), [0, 1] * 5 + [5]), np.arange(11)
    )
    .take(10)
    .batch(4),
    "tf.data in batches": sliced(x("float64"), {"a": ROWS}).batch(4),
    "PyDataset": Batches(x("float64"), ROWS, ROWS * 0.1),
    "PyDataset with threads": Batches(x(), ROWS, workers=2),
}


class Spy(keras.Model):
    """A model that records the batches that `fit` passes to its training step."""

    def train_step(self, data):
        """Record the batch."""
        self.batches = [*getattr(self, "batches", []), data]
        return {"loss": 0.0}


def batches_of_fit(examples):
    """Return the batches that `fit` passes to `train_step`, in the order of the examples."""
    spy = Spy()
    spy.compile(run_eagerly=True)
    arrays = examples if isinstance(examples, tuple) else (examples,)
    options = dict(zip(("x", "y", "sample_weight"), arrays, strict=False))
    spy.fit(**options, batch_size=4, shuffle=False, verbose=0)
    return spy.batches


def as_tensor(stored):
    if isinstance(stored, Ragged):
        return tf.RaggedTensor.from_nested_row_splits(stored.values, stored.row_splits)
    return tf.constant(stored)


def as_list(tensor):
    return tensor.to_list() if isinstance(tensor, tf.RaggedTensor) else tensor.numpy().tolist()


@pytest.mark.parametrize("kind", SETS)
def test_what_is_stored_is_what_fit_hands_to_a_training_step(prepare, tmp_path, kind):
    manifest = prepare((SETS[kind], None))
    data = datasets.load(tmp_path / "out/manifest.json")
    assert (manifest.train_examples, manifest.test_examples, data.test) == (EXAMPLES, 0, None)
    read = 0
    given = SETS[kind]
    if kind == "strings":  # `fit` accepts strings only as tensors, not as NumPy arrays.
        given = tf.constant(given[0]), given[1]
    for batch in batches_of_fit(given):
        tf.nest.assert_same_structure(batch, data.train, check_types=True)
        for (path, part), (stored_path, stored) in zip(flat(batch), flat(data.train), strict=True):
            assert path == stored_path
            examples = part.shape[0]
            kept = as_tensor(stored)[read : read + examples]
            assert (kept.dtype, kept.shape.as_list()) == (part.dtype, part.shape.as_list())
            assert as_list(kept) == as_list(part)
        read += examples
    assert read == EXAMPLES


@pytest.mark.parametrize(
    "examples",
    [
        sliced(x("float64"), ROWS),
        tf.data.Dataset.from_generator(
            lambda: iter(zip(x("float64"), ROWS, strict=True)), output_types=("float64", "int64")
        ),
    ],
    ids=["tf.data without batches", "tf.data of unknown length"],
)
def test_what_fit_takes_only_when_it_is_put_in_batches_is_read_too(prepare, tmp_path, examples):
    prepare((examples, None))
    stored_x, stored_y = datasets.load(tmp_path / "out/manifest.json").train
    assert (stored_x.dtype, stored_y.dtype) == (np.float64, np.int64)
    np.testing.assert_array_equal(stored_x, x())
    np.testing.assert_array_equal(stored_y, ROWS)


def failing(row, label):
    return tf.debugging.check_numerics(row / 0, "oh"), label


def lengthening(row, label):
    return row[: label + 1], label


PLAIN = sliced(x(), ROWS)


RETURNS = "must return (train, test), where test may be None"
TURNED_ROUND = "it returned (x, y): return ((x, y), None)"


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (None, RETURNS),
        ((None, (x(), ROWS)), RETURNS),
        ((x(), ROWS), TURNED_ROUND),
        ((pd.DataFrame(x()), pd.Series(ROWS)), TURNED_ROUND),
        (((x(), None, ROWS), None), "train: has sample weights, but no y"),
        (((x(), ROWS), 1), "test: must be (x, y) of arrays, (x, y, sample_weight), a tf.data"),
        (((x().tolist(), ROWS), None), "must be arrays of examples, not float"),
        (([Batches(x(), ROWS)], None), "must be arrays of examples, not Batches"),
        (((x(), ROWS[:5]), None), "Data cardinality is ambiguous"),
        (((np.array([[1], [2, 3]], object), ROWS[:2]), None), "Invalid dtype: object"),
        (((x(), pd.Series(ROWS, dtype="category")), None), "Invalid dtype: category"),
        (((x()[:0], ROWS[:0]), None), "train: is empty"),
        (((x(), {1: ROWS}), None), "the keys of a dict must be text, not 1"),
        (((x() * np.nan, ROWS), None), "train: x has numbers that are not finite"),
        (((x(), ROWS, {"b": (ROWS + np.inf,)}), None), "sample_weight['b'][0] has numbers"),
        (((x("complex64"), ROWS), None), "train: has complex64; allowed: numbers"),
        (((np.array(["a\0"], object), ROWS[:1]), None), "do not end with a zero byte"),
        (((tf.sparse.from_dense(x()), ROWS), None), "train: make a SparseTensor dense or ragged"),
        ((WithoutWeights(x(), ROWS), None), "InvalidArgumentError"),
        ((Batches(x(), ROWS[:5]), None), "train: has arrays of 5 and 10 examples"),
        ((PLAIN.repeat(), None), "train: is endless; leave out .repeat(), or end it with .take(n)"),
        ((PLAIN.map(failing), None), "oh"),
        ((PLAIN.map(lengthening), None), "must have one shape; there are (1,) and (2,)"),
        ((PLAIN.map(lambda row, label: (row, label, None)), None), "(2,) is None; leave it out"),
    ],
)
def test_what_cannot_be_used_is_told_in_one_line(prepare, tmp_path, returned, said):
    line = user_error(prepare, returned)
    assert said in line
    assert line.startswith("mine.py:load: ")
    assert not (tmp_path / "out/manifest.json").exists()


def without_length():
    endless = Batches(x(), ROWS)
    endless.__class__ = type("Endless", (Batches,), {"num_batches": None})
    return endless


@pytest.mark.parametrize(
    ("endless", "said"),
    [
        (PLAIN.repeat().filter(lambda row, label: True), "or no end; end it with .take"),
        (without_length(), "train: is endless; give the PyDataset a __len__"),
    ],
)
def test_data_that_has_no_end_is_given_up(prepare, monkeypatch, endless, said):
    monkeypatch.setattr(user_data, "MOST_EXAMPLES", 1000)
    assert said in user_error(prepare, (endless, None))

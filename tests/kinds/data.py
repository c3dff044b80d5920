"""Data of the kinds of models, by name."""

import numpy as np

EXAMPLES = 48


def numbers(*shape, seed=1, examples=EXAMPLES):
    """Return random numbers, float32, one row an example."""
    return np.random.default_rng(seed).normal(size=(examples, *shape)).astype("float32")


def integers(high, *shape, seed=2):
    """Return random numbers from 0 up to below `high`, int64, one row an example."""
    return np.random.default_rng(seed).integers(0, high, (EXAMPLES, *shape))


def summed(x):
    return x.sum(axis=1, keepdims=True)


def sentences():
    known = np.array(["one", "two", "three", "four", "five"])
    return np.array([" ".join(known[row]) for row in integers(5, 4)])


def padded_tokens():
    ids = integers(20, 6)
    lengths = 1 + integers(6, seed=3)
    ids[[[place >= length for place in range(6)] for length in lengths]] = 0
    return (ids.astype("int32"), integers(3, 6))


def hub():
    """Return tokens as a preprocessor makes them."""
    ids = integers(20, 6).astype("int32")
    there = ids > 4
    there[:, 0] = True
    return ({"token_ids": ids, "padding_mask": there, "segment_ids": 0 * ids}, integers(3))


def ragged():
    import tensorflow as tf

    lengths = 1 + integers(6, seed=3)
    ids = tf.RaggedTensor.from_row_lengths(
        integers(20, 6).ravel()[: lengths.sum()], lengths, validate=False
    )
    return (ids, integers(3))


X, LABELS, SERIES, LONGER = numbers(8), integers(3), numbers(5, 3), numbers(8, examples=77)
TWO_INPUTS = {"left": X, "right": numbers(4, seed=3)}
TRAIN = {
    "sums": (X, summed(X)),
    "small_sums": (X, 0.1 * summed(X)),
    "tested_sums": (X, summed(X)),
    "not_full": (LONGER, summed(LONGER)),  # the last batch is not full: its examples are left over
    "named_sums": (X, {"size": summed(X)}),
    "weighted_sums": (X, summed(X), abs(numbers(seed=3))),
    "same": (X, X),
    "noise": (X, numbers(8, seed=3)),
    "alone": (X,),
    "classes": (X, LABELS),
    "column": (X, integers(3, 1)),
    "one_hot": (X, np.eye(3, dtype="float32")[LABELS]),
    "weighted": (X, LABELS, (1.0 + 2.0 * LABELS).astype("float32")),  # as class_weight would
    "series": (SERIES, SERIES[:, 0, :1]),
    "pictures": (numbers(8, 8, 1), LABELS),
    "words": (integers(20, 6).astype("int32"), integers(3, seed=3)),
    "padded_tokens": padded_tokens(),
    "hub": hub(),
    "text": (sentences().astype(object), integers(2, seed=3)),
    "two_inputs": (TWO_INPUTS, {"size": summed(X), "kind": LABELS}),
    "pairs": ((X, numbers(8, seed=3)), integers(2)),
}
TEST = {"tested_sums": (X[:21], -summed(X)[:21])}


def load(name):
    """Return (train, test); the training set is (x, y), (x, y, sample_weight) or (x,)."""
    train = ragged() if name == "ragged" else TRAIN[name]
    return train, TEST.get(name)

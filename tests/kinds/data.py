"""Data of the kinds of models: each function returns (train, test)."""

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


def sums():
    x = numbers(8)
    return (x, summed(x)), None


def small_sums():
    x = numbers(8)
    return (x, 0.1 * summed(x)), None


def tested_sums():
    x = numbers(8)
    return (x, summed(x)), (x[:21], -summed(x)[:21])


def not_full():
    """Return data whose last batch is not full: its examples are left over."""
    x = numbers(8, examples=77)
    return (x, summed(x)), None


def named_sums():
    x = numbers(8)
    return (x, {"size": summed(x)}), None


def weighted_sums():
    x = numbers(8)
    return (x, summed(x), abs(numbers(seed=3))), None


def same():
    x = numbers(8)
    return (x, x), None


def noise():
    return (numbers(8), numbers(8, seed=3)), None


def alone():
    return (numbers(8),), None


def classes():
    return (numbers(8), integers(3)), None


def column():
    return (numbers(8), integers(3, 1)), None


def one_hot():
    return (numbers(8), np.eye(3, dtype="float32")[integers(3)]), None


def weighted():
    """Return weights as class_weight would have them."""
    y = integers(3)
    return (numbers(8), y, (1.0 + 2.0 * y).astype("float32")), None


def series():
    x = numbers(5, 3)
    return (x, x[:, 0, :1]), None


def pictures():
    return (numbers(8, 8, 1), integers(3)), None


def words():
    return (integers(20, 6).astype("int32"), integers(3, seed=3)), None


def padded_tokens():
    ids = integers(20, 6)
    lengths = 1 + integers(6, seed=3)
    ids[[[place >= length for place in range(6)] for length in lengths]] = 0
    return (ids.astype("int32"), integers(3, 6)), None


def hub():
    """Return tokens as a preprocessor makes them."""
    ids = integers(20, 6).astype("int32")
    there = ids > 4
    there[:, 0] = True
    return ({"token_ids": ids, "padding_mask": there, "segment_ids": 0 * ids}, integers(3)), None


def ragged():
    import tensorflow as tf

    lengths = 1 + integers(6, seed=3)
    ids = tf.RaggedTensor.from_row_lengths(
        integers(20, 6).ravel()[: lengths.sum()], lengths, validate=False
    )
    return (ids, integers(3)), None


def sentences():
    known = np.array(["one", "two", "three", "four", "five"])
    return np.array([" ".join(known[row]) for row in integers(5, 4)])


def text():
    return (sentences().astype(object), integers(2, seed=3)), None


def two_inputs():
    x = {"left": numbers(8), "right": numbers(4, seed=3)}
    return (x, {"size": summed(x["left"]), "kind": integers(3)}), None


def pairs():
    return ((numbers(8), numbers(8, seed=3)), integers(2)), None

"""Synthetic data is reproducible, balanced, and can be learned, but not perfectly."""

import numpy as np
import pytest

from nodewise.data import synthetic

SHAPES = [(28, 28, 1), (32, 32, 3), (512,)]


def drawn(shape, examples, classes=2, seed=1, split=0):
    return synthetic.draw(shape, classes, examples, seed=seed, split=split)


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_drawn(shape):
    examples, labels = drawn(shape, 313)
    assert examples.shape == (313, *shape)
    assert (examples.dtype, labels.dtype) == (np.uint8 if len(shape) > 1 else np.uint16, np.uint8)
    assert np.bincount(labels).tolist() == [157, 156]
    assert 0.3 < (np.diff(labels.astype(int)) != 0).mean() < 0.7  # The labels are shuffled.
    assert len(np.unique(examples.reshape(313, -1), axis=0)) == 313


@pytest.mark.parametrize("shape", [(28, 28, 1), (32, 32, 3)])
def test_a_linear_model_learns_something_but_not_everything(shape):
    (x, y), (test_x, test_y) = (drawn(shape, 1200, 10, split=split) for split in (0, 1))
    x, test_x = (images.reshape(len(images), -1) / 255 for images in (x, test_x))
    middle = x.mean(axis=0)
    kernel = (x - middle) @ (x - middle).T + 50 * np.eye(len(x))
    weights = (x - middle).T @ np.linalg.solve(kernel, np.eye(10)[y] - 0.1)
    accuracy = (((test_x - middle) @ weights).argmax(axis=1) == test_y).mean()
    assert 0.6 < accuracy < 0.95


def test_texts_are_tokens_between_a_start_and_an_end():
    ids, _ = drawn((512,), 100)
    lengths = (ids != 0).sum(axis=1)
    for row, length in zip(ids, lengths, strict=True):
        assert row[0] == synthetic.START
        assert row[length - 1] == synthetic.END
        assert synthetic.WORDS.start <= row[1 : length - 1].min() <= row.max() < 30_522
    assert 0.3 < (lengths == 512).mean() < 0.95  # Many texts are cut, many are padded.

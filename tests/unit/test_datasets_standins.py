"""Stand-ins are deterministic, balanced, and neither trivial nor noise."""

import numpy as np
import pytest

from nodewise.datasets.standins import KINDS, draw


def drawn(kind, examples=600, seed=1, split=0):
    return draw(kind, examples, seed, split, lambda made: None)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_draws_the_same(kind):
    images, labels = drawn(kind)
    again, labels_again = drawn(kind)
    assert np.array_equal(images, again)
    assert np.array_equal(labels, labels_again)
    assert not np.array_equal(images, drawn(kind, seed=2)[0])
    assert not np.array_equal(images, drawn(kind, split=1)[0])


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_drawn(kind):
    made = []
    images, labels = draw(kind, 1013, 1, 0, made.append)
    assert images.shape == (1013, 28, 28, 1)
    assert images.dtype == labels.dtype == np.uint8
    assert sum(made) == 1013
    counts = np.bincount(labels, minlength=10)
    assert counts.max() - counts.min() <= 1
    assert (np.diff(labels.astype(int)) != 0).mean() > 0.8  # shuffled
    assert len(np.unique(images.reshape(1013, -1), axis=0)) == 1013
    assert images.min() == 0
    assert images.max() > 240
    # The drawing is in the middle, the edge of the frame mostly empty.
    assert images[:, 7:21, 7:21].mean() > 3 * images[:, :2].mean()


@pytest.mark.parametrize("kind", KINDS)
def test_a_linear_model_learns_something_but_not_everything(kind):
    images, labels = drawn(kind, 4000)
    test_images, test_labels = drawn(kind, 1000, split=1)

    def features(pixels):
        flat = pixels.reshape(len(pixels), -1) / 255
        return np.column_stack([flat, np.ones(len(flat))])

    x, targets = features(images), np.eye(10)[labels]
    weights = np.linalg.solve(x.T @ x + 10 * np.eye(x.shape[1]), x.T @ targets)
    accuracy = ((features(test_images) @ weights).argmax(axis=1) == test_labels).mean()
    assert 0.6 < accuracy < 0.95

"""Synthetic datasets are reproducible, balanced, and neither trivial nor pure noise."""

import numpy as np
import pytest

from nodewise.data.standins import KINDS, draw, reviews

GREY = [name for name, kind in KINDS.items() if kind.shape[-1] == 1]
SOME = [pytest.param(kind, marks=[pytest.mark.slow] * (kind == "photos")) for kind in KINDS]
COLOUR = [name for name in KINDS if name not in GREY]


def drawn(kind, examples=600, seed=1, split=0):
    return draw(kind, examples, seed, split, lambda made: None)


@pytest.mark.parametrize("kind", SOME)
def test_the_same_seed_draws_the_same(kind):
    images, labels = drawn(kind)
    again, labels_again = drawn(kind)
    assert np.array_equal(images, again)
    assert np.array_equal(labels, labels_again)
    assert not np.array_equal(images, drawn(kind, seed=2)[0])
    assert not np.array_equal(images, drawn(kind, split=1)[0])


@pytest.mark.parametrize("kind", SOME)
def test_what_is_drawn(kind):
    made = []
    images, labels = draw(kind, 1013, 1, 0, made.append)
    assert images.shape == (1013, *KINDS[kind].shape)
    assert images.dtype == labels.dtype == np.uint8
    assert sum(made) == 1013
    counts = np.bincount(labels)
    assert len(counts) == KINDS[kind].classes
    assert counts.max() - counts.min() <= 1
    assert (np.diff(labels.astype(int)) != 0).mean() > 0.8  # The labels are shuffled.
    assert len(np.unique(images.reshape(1013, -1), axis=0)) == 1013
    assert images.min() == 0
    assert images.max() > 240


@pytest.mark.parametrize("kind", GREY)
def test_the_drawing_is_in_the_middle(kind):
    images, _ = drawn(kind)
    # The drawing is in the middle; the edge of the frame is mostly empty.
    assert images[:, 7:21, 7:21].mean() > 3 * images[:, :2].mean()


@pytest.mark.parametrize("kind", COLOUR)
def test_colours_say_nothing_of_the_class(kind):
    images, labels = drawn(kind, 1000)
    colour = images.mean(axis=(1, 2))
    means = np.array([colour[labels == label].mean(axis=0) for label in np.unique(labels)])
    chance = (len(means) / len(images)) ** 0.5  # the distance of means of random examples
    assert means.std(axis=0).max() < 2 * chance * colour.std(axis=0).min()


@pytest.mark.parametrize("kind", GREY)
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


def reviewed(examples=400, seed=1, split=0):
    return reviews.draw(examples, 2, 512, seed, split, lambda made: None)


def test_reviews_are_tokens_between_a_start_and_an_end():
    ids, labels = reviewed()
    assert ids.shape == (400, 512)
    assert (ids.dtype, labels.dtype) == (np.uint16, np.uint8)
    assert np.bincount(labels).tolist() == [200, 200]
    assert ids.max() < 30_522  # the size of the vocabulary of bert-base-uncased
    lengths = (ids != 0).sum(axis=1)
    for row, length in zip(ids, lengths, strict=True):
        assert row[0] == reviews.START
        assert row[length - 1] == reviews.END
        assert (row[1 : length - 1] >= reviews.WORDS.start).all()
        assert (row[length:] == 0).all()
    assert 0.3 < (lengths == 512).mean() < 0.95  # Many texts are cut, many are padded.


def test_the_same_seed_draws_the_same_reviews():
    ids, labels = reviewed()
    again, labels_again = reviewed()
    assert np.array_equal(ids, again)
    assert np.array_equal(labels, labels_again)
    assert not np.array_equal(ids, reviewed(seed=2)[0])
    assert not np.array_equal(ids, reviewed(split=1)[0])


def test_words_speak_for_the_label_but_not_surely():
    def counts(ids):
        return np.log1p(np.stack([np.bincount(row, minlength=30_522) for row in ids])[:, 1:])

    (ids, labels), (test_ids, test_labels) = reviewed(1200), reviewed(400, split=1)
    x, test = counts(ids).astype(np.float32), counts(test_ids).astype(np.float32)
    middle = x.mean(axis=0)
    x, test = x - middle, test - middle
    weights = x.T @ np.linalg.solve(x @ x.T + 50 * np.eye(len(x)), labels - 0.5)
    assert 0.65 < ((test @ weights > 0) == test_labels).mean() < 0.95

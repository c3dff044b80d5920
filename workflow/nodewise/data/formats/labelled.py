"""Label files by the folder that they are in, and divide them into a training and a test set."""

from collections.abc import Sequence

import numpy as np

from nodewise.data.facts import Facts

Files = tuple[list[str], list[int]]
"""Names of files and their labels."""


def labelled(
    names: Sequence[str], folders: Sequence[str], facts: Facts, suffix: str
) -> tuple[Files, Files]:
    """Return the files of the training set and of the test set, with their labels.

    The order of the files in each set is given by `facts.split_seed`.

    Args:
        names: names of all files in the archive.
        folders: folders with one subfolder per class: one for training and one for testing, or only
            one, which is split according to `facts.split_seed`.
        facts: facts about the dataset: classes, number of examples and seed.
        suffix: suffix of the files that are examples. Other files are ignored.

    Raises:
        ValueError: a set does not have the expected number of examples.
    """
    rng = np.random.default_rng(facts.split_seed)
    parts = []
    for folder in folders:
        labels = {f"{folder}/{name}": label for label, name in enumerate(facts.classes)}
        places = ((name, name.rpartition("/")[0]) for name in sorted(names))
        items = [
            (name, labels[place])
            for name, place in places
            if place in labels and name.endswith(suffix)
        ]
        parts.append([items[row] for row in rng.permutation(len(items))])
    if len(parts) == 1:
        (items,) = parts
        parts = [items[: facts.train_examples], items[facts.train_examples :]]
    for items, expected in zip(parts, (facts.train_examples, facts.test_examples), strict=True):
        if len(items) != expected:
            raise ValueError(f"{folders[-1]}: {len(items):,} examples, expected {expected:,}")
    train, test = (([name for name, _ in items], [label for _, label in items]) for items in parts)
    return train, test

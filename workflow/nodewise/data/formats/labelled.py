"""Label files by the folder that they are in, and divide them into a training and a test set."""

from collections.abc import Sequence

import numpy as np

from nodewise.data.facts import Facts

Item = tuple[str, int]  # name of a file and its label


def labelled(
    names: Sequence[str],
    folders: Sequence[str],
    facts: Facts,
    suffix: str,
    besides: Sequence[str] = (),
) -> tuple[list[Item], list[Item]]:
    """Return the files of the training set and of the test set, with their labels.

    The order of the files in each set is given by `facts.split_seed`.

    Args:
        names: names of all files in the archive.
        folders: folders with one subfolder per class: one for training and one for testing, or only
            one, which is split according to `facts.split_seed`.
        facts: facts about the dataset: classes, number of examples and seed.
        suffix: suffix of the files that are examples.
        besides: names of further files that are allowed.

    Raises:
        ValueError: there is another file, a class has no files, or a set does not have the expected
            number of examples.
    """
    places = {
        f"{folder}/{name}": (part, label)
        for part, folder in enumerate(folders)
        for label, name in enumerate(facts.classes)
    }
    by_folder: list[list[Item]] = [[] for _ in folders]
    for name in sorted(names):
        folder, _, leaf = name.rpartition("/")
        if folder in places and leaf.endswith(suffix):
            part, label = places[folder]
            by_folder[part].append((name, label))
        elif name not in besides:
            raise ValueError(f"{name}: not expected; examples are {folders[0]}/<class>/*{suffix}")
    for folder, (part, label) in places.items():
        if not any(item[1] == label for item in by_folder[part]):
            raise ValueError(f"{folder}: no such folder, or no *{suffix} in it")
    rng = np.random.default_rng(facts.split_seed)
    parts = [[items[row] for row in rng.permutation(len(items))] for items in by_folder]
    train, test = parts if len(parts) == 2 else _cut(parts[0], facts.train_examples)
    for kind, items, expected in (
        ("training", train, facts.train_examples),
        ("test", test, facts.test_examples),
    ):
        if len(items) != expected:
            raise ValueError(f"{len(items):,} {kind} examples, expected {expected:,}")
    return train, test


def _cut(items: list[Item], first: int) -> tuple[list[Item], list[Item]]:
    return items[:first], items[first:]

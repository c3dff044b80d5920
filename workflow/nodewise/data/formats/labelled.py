"""Files that are labelled by the folder they lie in, and how they become two parts in one order."""

from collections.abc import Sequence

import numpy as np

from nodewise.data.facts import Facts

Item = tuple[str, int]  # the name of a file, and its label


def labelled(
    names: Sequence[str],
    folders: Sequence[str],
    facts: Facts,
    suffix: str,
    besides: Sequence[str] = (),
) -> tuple[list[Item], list[Item]]:
    """Return the files for training and for testing, each in an order fixed by `split_seed`.

    Args:
        names: the files of an archive.
        folders: those that hold a folder per class: one for training and one for testing, or just
            one, which is then split by `split_seed`.
        facts: the classes, how many examples there are, and the seed.
        suffix: of the files that are examples.
        besides: files that may be there too.

    Raises:
        ValueError: another file is there, a class has none, or the number is not the expected one.
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

"""Interface of all release formats, and what those with one folder per class share."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nodewise.core.cell import Frozen, Line
from nodewise.data.facts import Facts, SourceFile
from nodewise.data.structures import Array

Files = tuple[list[str], list[int]]
"""Names of files and their labels."""
Labelled = tuple[Array, NDArray[np.uint8]]
"""Examples (examples, …) and their labels (examples), which are indices into `Facts.classes`."""


class BaseRelease(Frozen):
    """A release of a dataset: files in one format.

    `note` says how the examples differ from the official ones. A release has either a note or
    official addresses for all its files.
    """

    note: Line | None = None

    def files_needed(self) -> list[SourceFile]:
        """Return the files of the release: those of all fields. Their names are different."""
        values = [value for _, value in self]
        lists = [value if isinstance(value, tuple) else [value] for value in values]
        return [one for found in lists for one in found if isinstance(one, SourceFile)]

    @abstractmethod
    def read(self, facts: Facts, paths: Mapping[str, Path]) -> tuple[Labelled, Labelled]:
        """Read the files, whose digests have been checked.

        Args:
            facts: facts about the dataset.
            paths: path of each file, by its name.

        Returns:
            The training set and the test set. Images are uint8 of N × H × W × C, token ids are
            uint16 of N × tokens, padded with 0.

        Raises:
            ValueError: a file does not agree with `facts`. The message names it.
        """


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

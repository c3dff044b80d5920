"""Interface of all release formats."""

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nodewise.core.cell import Frozen, Line
from nodewise.data.facts import Facts, SourceFile
from nodewise.data.structures import Array

Labelled = tuple[Array, NDArray[np.uint8]]
"""Examples (examples, …) and their labels (examples), which are indices into `Facts.classes`."""


class BaseRelease(Frozen):
    """A release of a dataset: files in one format.

    `note` says how the examples differ from the official ones. A release has either a note or
    official addresses for all its files.
    """

    note: Line | None = None

    @abstractmethod
    def files_needed(self) -> tuple[SourceFile, ...]:
        """Return the files of the release. Their names are different."""

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

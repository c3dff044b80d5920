"""Interface of all release formats."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from pydantic import model_validator

from nodewise.core.cell import Frozen
from nodewise.core.fetch import Text
from nodewise.data.facts import Facts, SourceFile
from nodewise.data.prepared import Arrays


class BaseRelease(Frozen):
    """A release of a dataset: files in one format.

    `note` says how the examples differ from the official ones. A release has either a note or
    official addresses for all its files.
    """

    note: Text | None = None

    @abstractmethod
    def files_needed(self) -> tuple[SourceFile, ...]:
        """Return the files of the release. Their names are different."""

    @abstractmethod
    def check(self, facts: Facts) -> None:
        """Raise a ValueError if this format cannot contain a dataset with these facts."""

    @abstractmethod
    def read(
        self, facts: Facts, paths: Mapping[str, Path], advance: Callable[[int], None]
    ) -> Arrays:
        """Read the files and return the examples and labels.

        Args:
            facts: facts about the dataset.
            paths: path of each file, by its name.
            advance: called with the number of examples just read.

        Raises:
            ValueError: a file does not agree with `facts`. The message names the file.
        """

    @model_validator(mode="after")
    def _official_or_noted(self) -> Self:
        for file in self.files_needed():
            if self.note is None and not file.urls:
                raise ValueError(f"{file.name}: official content needs its urls, other a note")
            if self.note is not None and file.urls:
                raise ValueError(f"{file.name}: with a note it is not official, so it has no urls")
        return self

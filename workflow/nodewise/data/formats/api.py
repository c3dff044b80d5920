"""What all forms of releases have in common."""

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
    """One way to get a dataset: some files, in one form.

    `note` tells how the examples differ from the official ones. A release with a note has no
    official address, and every other one has.
    """

    note: Text | None = None

    @abstractmethod
    def files_needed(self) -> tuple[SourceFile, ...]:
        """Return the files; they have different names."""

    @abstractmethod
    def check(self, facts: Facts) -> None:
        """Raise a ValueError if this form cannot hold what `facts` tells."""

    @abstractmethod
    def read(
        self, facts: Facts, paths: Mapping[str, Path], advance: Callable[[int], None]
    ) -> Arrays:
        """Return the examples and labels.

        Args:
            facts: what the dataset is.
            paths: where each file is, by its name.
            advance: called with the number of examples just read.

        Raises:
            ValueError: a file, which the text names, is not what `facts` tells.
        """

    @model_validator(mode="after")
    def _official_or_noted(self) -> Self:
        for file in self.files_needed():
            if self.note is None and not file.urls:
                raise ValueError(f"{file.name}: official content needs its urls, other a note")
            if self.note is not None and file.urls:
                raise ValueError(f"{file.name}: with a note it is not official, so it has no urls")
        return self

"""Registries of datasets and weights: facts, the addresses of files and their digests."""

from pathlib import Path
from typing import Self, TypeVar

from pydantic import Field, TypeAdapter, model_validator

from nodewise.core.cell import Frozen, Name
from nodewise.core.errors import UserError
from nodewise.core.schema import read_yaml
from nodewise.data.facts import Facts
from nodewise.data.formats import Release

Kind = TypeVar("Kind", bound=Frozen)


class Entry(Facts):
    """A dataset of the registry, and its releases in order of preference."""

    releases: tuple[Release, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [file.name for release in self.releases for file in release.files_needed()]
        if len(set(names)) != len(names):
            raise ValueError("releases: two files have the same name")
        return self


def read_registry(path: Path, kind: type[Kind]) -> dict[str, Kind]:
    """Read and check a registry file (YAML, one key per entry).

    Raises:
        UserError: the file cannot be read, is not YAML, or has an entry that is not of a `kind`.
            The message names the first error.
    """
    return read_yaml(TypeAdapter(dict[Name, kind]), path)  # type: ignore[valid-type]


def find(path: Path, name: str, kind: type[Kind]) -> Kind:
    """Return the entry `name` of the registry at `path`.

    Raises:
        UserError: see `read_registry`; or there is no such entry.
    """
    entries = read_registry(path, kind)
    if name not in entries:
        raise UserError(f"{name!r} is not in {path}; allowed: {', '.join(sorted(entries))}")
    return entries[name]

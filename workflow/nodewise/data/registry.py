"""Registry of datasets: facts about each, the addresses of its files and their digests."""

from pathlib import Path
from typing import Self

from pydantic import Field, TypeAdapter, model_validator

from nodewise.core.cell import Name
from nodewise.core.schema import find_entry, read_yaml
from nodewise.data.facts import Facts
from nodewise.data.formats import Release


class Entry(Facts):
    """A dataset of the registry, and its releases in order of preference."""

    releases: tuple[Release, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [file.name for release in self.releases for file in release.files_needed()]
        if len(set(names)) != len(names):
            raise ValueError("releases: two files have the same name")
        return self


def read_registry(path: Path) -> dict[str, Entry]:
    """Read and check a registry file (YAML, one key per dataset).

    Raises:
        UserError: the file cannot be read, is not YAML, or is not valid. The message names the
            first error.
    """
    return read_yaml(TypeAdapter(dict[Name, Entry]), path)


def find(path: Path, name: str) -> Entry:
    """Return the entry `name` of the registry at `path`.

    Raises:
        UserError: see `read_registry`; or there is no such dataset.
    """
    return find_entry(Entry, path, name)

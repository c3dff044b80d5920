"""The registry of datasets: what each one is, where its files are and how to know them."""

import json
import math
from pathlib import Path
from typing import Annotated, Literal, Self, get_args
from urllib.parse import urlsplit

import yaml
from pydantic import (
    AfterValidator,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from nodewise.cells import Frozen, Name
from nodewise.errors import UserError
from nodewise.misfits import first_misfit

MAX_CONTENT_BYTES = 2**30  # of one file, unpacked

Role = Literal["train_images", "train_labels", "test_images", "test_labels"]
StandIn = Literal["digits", "garments"]

ROLES: tuple[Role, ...] = get_args(Role)


def _plain_web_address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ValueError("must be an http(s) address without a user name")
    return url


# Starts with no dot and has no slash, so it stays in its folder and is never a hidden file.
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Url = Annotated[str, AfterValidator(_plain_web_address)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=120, pattern=r"^[^\n]+$")]


class SourceFile(Frozen):
    """One file of a dataset. `content_sha256` is of what is inside the gzip wrapping."""

    role: Role
    name: FileName
    content_sha256: Sha256
    urls: tuple[Url, ...] = Field(min_length=1)


class Entry(Frozen):
    """One dataset. `shape` is that of an example: height, width, channels."""

    title: Text
    licence: Text
    licence_url: Url
    format: Literal["idx"]
    stand_in: StandIn | None
    classes: tuple[Text, ...] = Field(min_length=2, max_length=256)
    shape: tuple[
        Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)], Literal[1]
    ]  # an IDX image has one channel
    train_examples: int = Field(ge=1)
    test_examples: int = Field(ge=1)
    files: tuple[SourceFile, ...]

    @model_validator(mode="after")
    def _files_fit(self) -> Self:
        if sorted(file.role for file in self.files) != sorted(ROLES):
            raise ValueError(f"files: need each role exactly once: {', '.join(ROLES)}")
        if len({file.name for file in self.files}) != len(self.files):
            raise ValueError("files: two have the same name")
        if len(set(self.classes)) != len(self.classes):
            raise ValueError("classes: two have the same name")
        largest = max(self.train_examples, self.test_examples) * math.prod(self.shape)
        if largest > MAX_CONTENT_BYTES:
            raise ValueError(f"more than {MAX_CONTENT_BYTES:,} bytes of images in one file")
        return self

    def array_shape(self, role: Role) -> tuple[int, ...]:
        """Return the shape of the array of `role`: N × H × W × 1 for images, N for labels."""
        examples = self.train_examples if role.startswith("train") else self.test_examples
        return (examples, *self.shape) if role.endswith("images") else (examples,)


_REGISTRY = TypeAdapter(dict[Name, Entry])


def read_registry(path: Path) -> dict[str, Entry]:
    """Read and check a registry file (YAML, one key per dataset).

    Raises:
        UserError: the file cannot be read, is not YAML, or does not fit (first misfit named).
    """
    try:
        told = yaml.safe_load(path.read_bytes())
        return _REGISTRY.validate_json(json.dumps(told, default=str))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        raise UserError(f"{path}: {first_misfit(error)}") from error


def find(path: Path, name: str) -> Entry:
    """Return the entry `name` of the registry at `path`.

    Raises:
        UserError: as `read_registry`, or there is no such dataset.
    """
    entries = read_registry(path)
    if name not in entries:
        raise UserError(f"{name!r} is no dataset of {path}; allowed: {', '.join(sorted(entries))}")
    return entries[name]

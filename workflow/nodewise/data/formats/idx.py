"""The IDX format of the MNIST family: a magic number, the dimensions, then one byte per value.

The magic number and the dimensions are big-endian 32-bit integers. 0x08 in the magic number means
that values are unsigned bytes.

Source: http://yann.lecun.com/exdb/mnist
"""

import math
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from nodewise.data.facts import Facts, SourceFile
from nodewise.data.formats.api import BaseRelease
from nodewise.data.prepared import Arrays

Bytes = NDArray[np.uint8]
Role = Literal["train_images", "train_labels", "test_images", "test_labels"]

ROLES: tuple[Role, ...] = get_args(Role)


class IdxFile(SourceFile):
    """One of the four files, compressed with gzip."""

    gzipped: ClassVar[bool] = True
    role: Role


class Idx(BaseRelease):
    """Grey images and labels: one file for each, for training and for testing."""

    format: Literal["idx"]
    files: tuple[IdxFile, ...]

    @model_validator(mode="after")
    def _each_role_once(self) -> Self:
        if sorted(file.role for file in self.files) != sorted(ROLES):
            raise ValueError(f"files: need each role exactly once: {', '.join(ROLES)}")
        return self

    def check(self, facts: Facts) -> None:
        """Raise a ValueError unless the examples are images with one channel."""
        if facts.shape[2:] != (1,):
            raise ValueError("shape: an IDX image has height, width and one channel")

    def files_needed(self) -> tuple[SourceFile, ...]:
        """Return the files of the four roles."""
        return self.files

    def read(
        self, facts: Facts, paths: Mapping[str, Path], advance: Callable[[int], None]
    ) -> Arrays:
        """Read the images and labels in the order of the files."""
        read: dict[Role, Bytes] = {}
        for file in self.files:
            part, kind = file.role.split("_")
            examples = facts.train_examples if part == "train" else facts.test_examples
            shape = (examples, *facts.shape) if kind == "images" else (examples,)
            try:
                read[file.role] = parse(paths[file.name].read_bytes(), shape)
            except ValueError as error:
                raise ValueError(f"{file.name}: {error}") from error
            advance(examples if kind == "images" else 0)
        return Arrays(*(read[role] for role in ROLES))


def header(shape: tuple[int, ...]) -> bytes:
    """Return the header of an IDX file with unsigned bytes for an array of `shape`.

    The channel axis of images (N × H × W × 1) is left out, because IDX images have none.
    """
    dimensions = shape[:3]
    return struct.pack(f">{1 + len(dimensions)}I", 0x800 + len(dimensions), *dimensions)


def size(shape: tuple[int, ...]) -> int:
    """Return the size in bytes of an IDX file with an array of `shape`."""
    return len(header(shape)) + math.prod(shape)


def parse(content: bytes, shape: tuple[int, ...]) -> Bytes:
    """Parse an IDX file whose array must have exactly the given shape. The data is not copied.

    Raises:
        ValueError: the magic number, the dimensions or the number of bytes is wrong.
    """
    expected = header(shape)
    if content[:4] != expected[:4]:
        raise ValueError(f"magic number 0x{content[:4].hex()}, expected 0x{expected[:4].hex()}")
    dimensions = content[4 : len(expected)]
    if len(dimensions) == len(expected) - 4 and dimensions != expected[4:]:
        found = "×".join(str(n) for (n,) in struct.iter_unpack(">I", dimensions))
        raise ValueError(f"dimensions {found}, expected {'×'.join(map(str, shape[:3]))}")
    if len(content) != size(shape):
        raise ValueError(f"{len(content):,} bytes, expected {size(shape):,}")
    return np.frombuffer(content, np.uint8, offset=len(expected)).reshape(shape)

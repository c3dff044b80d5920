"""The IDX format of the MNIST family: a magic number, the dimensions, then one byte per value.

The magic number and the dimensions are big-endian 32-bit integers. 0x08 in the magic number means
that values are unsigned bytes.

Source: http://yann.lecun.com/exdb/mnist
"""

import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from nodewise.data.facts import Facts, SourceFile
from nodewise.data.formats.api import BaseRelease, Labelled

ROLES = ("train_images", "train_labels", "test_images", "test_labels")


class IdxFile(SourceFile):
    """One of the four files, compressed with gzip."""

    gzipped: ClassVar[bool] = True
    role: Literal["train_images", "train_labels", "test_images", "test_labels"]


class Idx(BaseRelease):
    """Grey images and labels: one file for each, for training and for testing."""

    format: Literal["idx"]
    files: tuple[IdxFile, ...]

    @model_validator(mode="after")
    def _each_role_once(self) -> Self:
        if sorted(file.role for file in self.files) != sorted(ROLES):
            raise ValueError(f"files: need each role exactly once: {', '.join(ROLES)}")
        return self

    def read(self, facts: Facts, paths: Mapping[str, Path]) -> tuple[Labelled, Labelled]:
        """Read the images and labels in the order of the files."""
        found: dict[str, NDArray[np.uint8]] = {}
        for file in self.files:
            train = file.role.startswith("train")
            examples = facts.train_examples if train else facts.test_examples
            shape = (examples, *(facts.shape if file.role.endswith("images") else ()))
            content, expected = gzip.decompress(paths[file.name].read_bytes()), header(shape)
            if not content.startswith(expected) or len(content) != len(expected) + np.prod(shape):
                raise ValueError(f"{file.name}: is not an array of {shape}")
            found[file.role] = np.frombuffer(content, np.uint8, offset=len(expected)).reshape(shape)
        x_train, y_train, x_test, y_test = (found[role] for role in ROLES)
        return (x_train, y_train), (x_test, y_test)


def header(shape: tuple[int, ...]) -> bytes:
    """Return the header of an IDX file with unsigned bytes for an array of `shape`.

    The channel axis of images (N × H × W × 1) is left out, because IDX images have none.
    """
    dimensions = shape[:3]
    return np.array([0x800 + len(dimensions), *dimensions], ">u4").tobytes()

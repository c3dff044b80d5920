"""The official binary format of CIFAR-10, in a .tar.gz archive.

Each image is one byte for its label, then 3 × 32 × 32 bytes: the red, the green and the blue plane.

Source: https://www.cs.toronto.edu/~kriz/cifar.html
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nodewise.data.facts import Facts, SourceFile
from nodewise.data.formats.api import BaseRelease
from nodewise.data.formats.archive import tar_gz_files
from nodewise.data.prepared import Arrays

FOLDER = "cifar-10-batches-bin"
TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST = ("test_batch.bin",)
BESIDES = ("batches.meta.txt", "readme.html")

Bytes = NDArray[np.uint8]


class CifarBinary(BaseRelease):
    """Five files of training images and one of test images, in one archive."""

    format: Literal["cifar_binary"]
    file: SourceFile

    def files_needed(self) -> tuple[SourceFile, ...]:
        """Return the archive."""
        return (self.file,)

    def check(self, facts: Facts) -> None:
        """Raise a ValueError unless there are three colours and five equal training files."""
        if facts.shape[2:] != (3,) or facts.train_examples % len(TRAIN):
            raise ValueError("shape: cifar_binary has three colours, and five equal training files")

    def read(
        self, facts: Facts, paths: Mapping[str, Path], advance: Callable[[int], None]
    ) -> Arrays:
        """Read the images and labels, in the order of the files."""
        each = {name: facts.train_examples // len(TRAIN) for name in TRAIN}
        each |= dict.fromkeys(TEST, facts.test_examples)
        parts: dict[str, tuple[Bytes, Bytes]] = {}
        try:
            for path, content in tar_gz_files(paths[self.file.name]):
                name = path.removeprefix(f"{FOLDER}/")
                if name in each:
                    parts[name] = _parse(path, content, each[name], facts.shape)
                    advance(each[name])
                elif name not in BESIDES:
                    raise ValueError(f"{path}: not expected")
            for name in each:
                if name not in parts:
                    raise ValueError(f"{FOLDER}/{name}: not there")
        except ValueError as error:
            raise ValueError(f"{self.file.name}: {error}") from error
        train = [np.concatenate(arrays) for arrays in zip(*(parts[n] for n in TRAIN), strict=True)]
        return Arrays(train[0], train[1], *parts[TEST[0]])


def _parse(name: str, content: bytes, examples: int, shape: tuple[int, ...]) -> tuple[Bytes, Bytes]:
    """Parse the content of a file into images (N × H × W × 3) and labels (N)."""
    row = 1 + int(np.prod(shape))
    if len(content) != examples * row:
        raise ValueError(f"{name}: {len(content):,} bytes, expected {examples:,} × {row:,}")
    rows = np.frombuffer(content, np.uint8).reshape(examples, row)
    planes = rows[:, 1:].reshape(examples, shape[-1], *shape[:-1])
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), rows[:, 0].copy()

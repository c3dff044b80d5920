"""The official binary format of CIFAR-10, in a .tar.gz archive.

Each image is one byte for its label, then 3 × 32 × 32 bytes: the red, the green and the blue plane.

Source: https://www.cs.toronto.edu/~kriz/cifar.html
"""

import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from nodewise.data.facts import Facts, SourceFile
from nodewise.data.formats.api import BaseRelease, Labelled

FOLDER = "cifar-10-batches-bin"
TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST = ("test_batch.bin",)


class CifarBinary(BaseRelease):
    """Five files of training images and one of test images, in one archive."""

    format: Literal["cifar_binary"]
    file: SourceFile

    def read(self, facts: Facts, paths: Mapping[str, Path]) -> tuple[Labelled, Labelled]:
        """Read the images and labels, in the order of the files."""
        with tarfile.open(paths[self.file.name], "r:gz") as archive:
            content = {
                entry.name: file.read() for entry in archive if (file := archive.extractfile(entry))
            }

        def joined(names: Sequence[str], examples: int) -> Labelled:
            whole = b"".join(content.get(f"{FOLDER}/{name}", b"") for name in names)
            rows = np.frombuffer(whole, np.uint8).reshape(examples, 1 + int(np.prod(facts.shape)))
            planes = rows[:, 1:].reshape(examples, facts.shape[-1], *facts.shape[:-1])
            return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), rows[:, 0].copy()

        return joined(TRAIN, facts.train_examples), joined(TEST, facts.test_examples)

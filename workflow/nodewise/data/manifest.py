"""Manifest of a prepared dataset: what its arrays are and where they came from."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from nodewise.core.cell import Frozen, Name
from nodewise.core.schema import read_json
from nodewise.data.fetch import FileName, Sha256
from nodewise.data.structures import KeyPath
from nodewise.results.record import Origin

MANIFEST = "manifest.json"


class ManifestFile(Frozen):
    """A file from which the arrays were made."""

    name: FileName
    content_sha256: Sha256
    origin: Literal["official", "mirror"]


class ArrayFile(Frozen):
    """A stored array of a training or test set.

    Args:
        path: its position in the structure of the set.
        level: which row splits of a ragged array these are, see `Ragged`; None for values.
        file: name of the .npy file.
        dtype: NumPy's name of its type.
        shape: its shape.
        sha256: digest of its bytes (little-endian, C order).
    """

    path: KeyPath
    level: int | None = None
    file: str = Field(pattern=r"^(train|test)_[0-9_]+\.npy$")
    dtype: str = Field(pattern=r"^(bool|u?int(8|16|32|64)|float(16|32|64)|\|S[0-9]+)$")
    shape: tuple[Annotated[int, Field(ge=1)], ...] = Field(min_length=1)
    sha256: Sha256


class Manifest(Frozen):
    """Description of a prepared dataset.

    Equal content of equal origin gives an equal manifest, no matter whether the files were fetched
    or were in the cache.

    Args:
        origin: "official" if all files came from their official addresses, "mirror" if at least one
            came from a mirror, "generated" for synthetic data, "own" for a user's own data.
        note: how the examples differ from the official ones; None if they do not.
        sha256: digest over all arrays, see `prepared.write`.
        seed: seed of synthetic data; None for other data.
        files: files from which the arrays were made; empty for synthetic and own data.
        train: arrays of the training set.
        test: arrays of the test set; empty if there is none.
        refused: why there are no arrays at all, if the result of the user's function cannot be
            used; otherwise None.
    """

    dataset: Name
    title: str = Field(min_length=1)
    origin: Origin
    note: str | None = None
    sha256: Sha256
    seed: int | None = None
    files: tuple[ManifestFile, ...] = ()
    train_examples: int = Field(ge=0)
    test_examples: int = Field(ge=0)
    train: tuple[ArrayFile, ...]
    test: tuple[ArrayFile, ...]
    refused: str | None = None


def read_manifest(path: Path) -> Manifest:
    """Read the manifest of a prepared dataset.

    Raises:
        UserError: the manifest is missing or damaged.
    """
    return read_json(Manifest, path, "remove the file to have the dataset prepared again")

"""Write and load prepared datasets: arrays as .npy files, and a manifest that describes them.

A dataset has a training set and a test set. Each is a structure of arrays as `fit` accepts it, such
as (x, y).
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from nodewise.core.errors import RefusedError, UserError
from nodewise.core.files import atomic, write_json
from nodewise.core.schema import first_error
from nodewise.data.manifest import MANIFEST, ArrayFile, Manifest, read_manifest
from nodewise.data.structures import Array, KeyPath, Ragged, Structure, count, flat, nested

_AGAIN = "remove {} to have the dataset prepared again"
_NAMES: dict[KeyPath, str] = {(0,): "x", (1,): "y"}
Part = tuple[KeyPath, int | None, Array]
"""Path of an array, the level of its row splits (None for values), and what is stored."""


@dataclass(frozen=True)
class Dataset:
    """A prepared dataset: its manifest, training set and test set.

    The arrays are memory-mapped and read-only. `train` and `test` are what `fit` accepts, usually
    (x, y) or (x, y, sample_weight). x and y are arrays, which may be ragged, or nested tuples and
    dicts of arrays. `test` may be None.
    """

    manifest: Manifest
    train: Structure
    test: Structure

    @property
    def train_examples(self) -> int:
        """Number of training examples."""
        return count(self.train)

    @property
    def test_examples(self) -> int:
        """Number of test examples; 0 without a test set."""
        return 0 if self.test is None else count(self.test)


def write(out: Path, train: Structure, test: Structure | None, **about: Any) -> Manifest:  # noqa: ANN401
    """Write the arrays of a dataset and their manifest, for `load`.

    The digest of the dataset is that of the names, types, shapes and bytes of all arrays. It does
    not depend on how the examples were packed.

    Args:
        out: folder to write to.
        train: training set; None for data that is refused.
        test: test set; None if there is none.
        about: fields of `Manifest` that do not follow from the arrays.

    Raises:
        UserError: an array has a type that cannot be stored.
        OSError: `out` cannot be written.
    """
    digest = hashlib.sha256()
    described: dict[str, list[ArrayFile]] = {}
    stored: dict[str, Array] = {}  # by file name
    try:
        for split, structure in (("train", train), ("test", test)):
            described[split] = []
            for number, (path, level, array) in enumerate(_parts(structure)):
                name = f"{_NAMES.get(path, path)}{'' if level is None else level}_{split}"
                digest.update(f"{name} {array.dtype.name} {array.shape}\n".encode())
                digest.update(array.data)
                one = ArrayFile(
                    path=path,
                    level=level,
                    file=f"{split}_{number}.npy",
                    dtype=str(array.dtype.newbyteorder("=")),
                    shape=array.shape,
                    sha256=_sha256(array),
                )
                described[split].append(one)
                stored[one.file] = array
        manifest = Manifest(
            **about,
            sha256=digest.hexdigest(),
            train_examples=0 if train is None else count(train),
            test_examples=0 if test is None else count(test),
            train=tuple(described["train"]),
            test=tuple(described["test"]),
        )
    except ValidationError as error:
        raise UserError(f"{about['title']}: {first_error(error)}") from error
    out.mkdir(parents=True, exist_ok=True)
    (out / MANIFEST).unlink(missing_ok=True)  # an old manifest must not describe new arrays
    for file, array in stored.items():
        with atomic(out / file) as temporary, temporary.open("wb") as opened:
            np.save(opened, array, allow_pickle=False)
    write_json(out / MANIFEST, manifest.model_dump(mode="json"))
    return manifest


def _parts(structure: Structure | None) -> Iterator[Part]:
    """Yield the arrays as which a structure is stored: little-endian, in C order."""
    for path, array in () if structure is None else flat(structure):
        ragged = isinstance(array, Ragged)
        for level, part in enumerate((array.values, *array.row_splits) if ragged else (array,)):
            stored = np.ascontiguousarray(part, part.dtype.newbyteorder("<"))
            yield path, level - 1 if level else None, stored


def load(path: Path) -> Dataset:
    """Open the prepared dataset of the manifest at `path`.

    Raises:
        UserError: the manifest or an array is missing or damaged, or they do not fit together.
        RefusedError: there are no arrays, because a user's own dataset was refused.
    """
    manifest = read_manifest(path)
    if manifest.refused is not None:
        raise RefusedError(manifest.refused)
    sets = (_structure(path.parent, files) for files in (manifest.train, manifest.test))
    return Dataset(manifest, *sets)


def _structure(folder: Path, files: tuple[ArrayFile, ...]) -> Structure | None:
    """Open the arrays of a set; None if there are none."""
    parts: dict[KeyPath, list[Array]] = {}
    for one in files:
        parts.setdefault(one.path, []).append(_open(folder, one))
    arrays = {
        path: Ragged(values, tuple(one.astype(np.int64) for one in splits)) if splits else values
        for path, (values, *splits) in parts.items()
    }
    return nested(arrays.items()) if arrays else None


def check_arrays(path: Path) -> Manifest:
    """Check the arrays of a prepared dataset against the digests in its manifest.

    This reads every byte, so only the launcher does it, once. Its workers only call `load`.

    Args:
        path: the manifest.

    Returns:
        The manifest.

    Raises:
        UserError: see `load`; or an array has changed since it was prepared.
    """
    manifest, folder = read_manifest(path), path.parent
    for one in (*manifest.train, *manifest.test):
        if _sha256(_open(folder, one)) != one.sha256:
            file, again = folder / one.file, _AGAIN.format(folder)
            raise UserError(f"{file}: changed since it was prepared; {again}")
    return manifest


def _sha256(array: Array) -> str:
    return hashlib.sha256(array.data).hexdigest()


def _open(folder: Path, expected: ArrayFile) -> Array:
    path, again = folder / expected.file, _AGAIN.format(folder)
    try:
        # like np.load(mmap_mode="r"), but for .npy files only: no zip files, no pickles
        array: Array = np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError, EOFError) as error:
        reason = getattr(error, "strerror", None) or "not a whole .npy file"
        raise UserError(f"{path}: {reason}; {again}") from error
    described = array.shape == expected.shape and array.dtype == np.dtype(expected.dtype)
    if not described or not array.flags.c_contiguous:
        raise UserError(f"{path}: not the array of its manifest; {again}")
    return array

"""Write and load prepared datasets: arrays in a folder, and a manifest that describes them.

A dataset of the registry has four arrays, those of `Arrays`. A user's own dataset has a training
set and a test set. Each is a structure of arrays as `fit` accepts it, such as (x, y).
"""

import hashlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from nodewise.core.errors import UserError
from nodewise.core.files import atomic, write_json
from nodewise.core.schema import first_error
from nodewise.data.manifest import (
    MANIFEST,
    ArrayDigests,
    ArrayFile,
    Component,
    Components,
    Manifest,
    OwnManifest,
    RegistryManifest,
    read_manifest,
)
from nodewise.data.structures import Array, KeyPath, Ragged, Structure, count, flat, nested


class Arrays(NamedTuple):
    """Examples and labels of a dataset of the registry. Each array is stored as `<name>.npy`.

    x has the shape (examples, …) and one of the types of `RegistryManifest.dtype`: images are uint8
    of N × H × W × C, token ids are uint16 of N × tokens, padded with 0. y has the shape (examples,)
    and the type uint8. Each label is an index into `RegistryManifest.classes`.
    """

    x_train: Array
    y_train: NDArray[np.uint8]
    x_test: Array
    y_test: NDArray[np.uint8]


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

    @property
    def x_train(self) -> Array:
        """The x of a training set (x, y)."""
        return self.train[0]  # type: ignore[no-any-return]

    @property
    def y_train(self) -> Array:
        """The y of a training set (x, y)."""
        return self.train[1]  # type: ignore[no-any-return]

    @property
    def x_test(self) -> Array:
        """The x of a test set (x, y)."""
        return self.test[0]  # type: ignore[no-any-return]

    @property
    def y_test(self) -> Array:
        """The y of a test set (x, y)."""
        return self.test[1]  # type: ignore[no-any-return]


def arrays_sha256(arrays: Arrays) -> str:
    """Return the SHA-256 of all arrays: of their names, types, shapes and bytes.

    The bytes are little-endian in C order. The digest is computed in the same way for real and
    synthetic data, and does not depend on how the examples were packed.
    """
    digest = hashlib.sha256()
    for name, array in arrays._asdict().items():
        digest.update(f"{name} {array.dtype.name} {array.shape}\n".encode())
        digest.update(_stored(array).data)
    return digest.hexdigest()


def write(out: Path, arrays: Arrays, **about: Any) -> RegistryManifest:  # noqa: ANN401
    """Write the arrays of a dataset of the registry and their manifest, for `load`.

    Args:
        out: folder to write to.
        arrays: examples and labels.
        about: fields of `RegistryManifest` that do not follow from the arrays.

    Raises:
        UserError: the arrays have wrong types or shapes, or do not fit each other or the classes.
        OSError: `out` cannot be written.
    """
    for error in _errors(arrays, len(about["classes"])):
        raise UserError(f"{about['dataset']}: {error}")
    try:
        manifest = RegistryManifest(
            **about,
            sha256=arrays_sha256(arrays),
            arrays=ArrayDigests(**{n: _array_sha256(a) for n, a in arrays._asdict().items()}),
            train_examples=len(arrays.y_train),
            test_examples=len(arrays.y_test),
            shape=arrays.x_train.shape[1:],
            dtype=arrays.x_train.dtype.name,  # type: ignore[arg-type] # checked by the model
        )
    except ValidationError as error:
        raise UserError(f"{about['dataset']}: {first_error(error)}") from error
    _write(out, manifest, {f"{name}.npy": array for name, array in arrays._asdict().items()})
    return manifest


def write_own(
    out: Path, train: Structure, test: Structure | None, *, dataset: str, title: str
) -> OwnManifest:
    """Write the sets of a user's own dataset and their manifest, for `load`.

    Args:
        out: folder to write to.
        train: training set.
        test: test set; None if there is none.
        dataset: name of the dataset.
        title: its title.

    Raises:
        UserError: an array has a type that cannot be stored.
        OSError: `out` cannot be written.
    """
    stored: dict[str, Array] = {}  # by file name
    sets: dict[str, Components] = {}
    try:
        for split, structure in (("train", train), ("test", test)):
            components = []
            for number, (path, array) in enumerate(() if structure is None else flat(structure)):
                files = _files(f"{split}_{number}", array)
                components.append(_component(path, files))
                stored |= files
            sets[split] = tuple(components)
        manifest = OwnManifest(
            dataset=dataset,
            title=title,
            sha256=_components_sha256(sets),
            train_examples=count(train),
            test_examples=0 if test is None else count(test),
            train=sets["train"],
            test=sets["test"],
        )
    except ValidationError as error:
        raise UserError(f"{title}: {first_error(error)}") from error
    _write(out, manifest, stored)
    return manifest


def write_refusal(out: Path, *, dataset: str, title: str, reason: str) -> None:
    """Write a manifest that says why there are no arrays. Cells are then refused with this reason.

    Raises:
        OSError: `out` cannot be written.
    """
    manifest = OwnManifest(
        dataset=dataset,
        title=title,
        sha256=_components_sha256({}),
        train_examples=0,
        test_examples=0,
        refused=reason,
    )
    _write(out, manifest, {})


def _files(name: str, array: Array | Ragged) -> dict[str, Array]:
    """Return the plain arrays as which an array is stored, by file name; the values come first."""
    if not isinstance(array, Ragged):
        return {f"{name}.npy": array}
    splits = {f"{name}_splits_{level}.npy": one for level, one in enumerate(array.row_splits)}
    return {f"{name}.npy": array.values} | splits


def _component(path: KeyPath, files: dict[str, Array]) -> Component:
    values, *splits = (
        ArrayFile(
            file=file,
            dtype=str(array.dtype.newbyteorder("=")),
            shape=array.shape,
            sha256=_array_sha256(array),
        )
        for file, array in files.items()
    )
    return Component(path=path, row_splits=tuple(splits), **dict(values))


def _components_sha256(sets: dict[str, Components]) -> str:
    content = {split: [one.model_dump() for one in of_set] for split, of_set in sets.items()}
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _write(out: Path, manifest: Manifest, arrays: dict[str, Array]) -> None:
    """Write the arrays, then the manifest. An old manifest is removed before the arrays change."""
    out.mkdir(parents=True, exist_ok=True)
    (out / MANIFEST).unlink(missing_ok=True)
    for name, array in arrays.items():
        with atomic(out / name) as temporary, temporary.open("wb") as file:
            np.save(file, _stored(array), allow_pickle=False)
    write_json(out / MANIFEST, manifest.model_dump(mode="json"))


def _array_sha256(array: Array) -> str:
    return hashlib.sha256(_stored(array).data).hexdigest()


def _stored(array: Array) -> Array:
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))


def _errors(arrays: Arrays, classes: int) -> Iterator[str]:
    """Yield what is wrong with the arrays of a dataset. The manifest checks the type of x."""
    x_train, _, x_test, _ = arrays
    if (x_train.shape[1:], x_train.dtype) != (x_test.shape[1:], x_test.dtype):
        yield (
            f"training examples are {_kind(x_train)}, test examples {_kind(x_test)}; "
            "they must be alike"
        )
    for split, x, y in (("train", *arrays[:2]), ("test", *arrays[2:])):
        if y.shape != (len(x),) or y.dtype != np.uint8:
            yield f"y_{split} is {_kind(y, 0)}, expected uint8 of {len(x)}"
        elif len(y) == 0:
            yield f"x_{split} has no examples"
        elif y.max() >= classes:
            yield f"y_{split}: label {y.max()}, expected 0 … {classes - 1}"
        elif np.issubdtype(x.dtype, np.floating) and not np.isfinite(x).all():
            yield f"x_{split} has numbers that are not finite"


def _kind(array: Array, skipped: int = 1) -> str:
    return f"{array.dtype.name} of {'×'.join(map(str, array.shape[skipped:])) or 'one number'}"


def load(path: Path) -> Dataset:
    """Open the prepared dataset of the manifest at `path`.

    Raises:
        UserError: the manifest or an array is missing or damaged, or they do not fit together.
        RefusedError: there are no arrays, because a user's own dataset was refused.
    """
    manifest = read_manifest(path)
    manifest.check_usable()
    train, test = (
        nested((one.path, _open(path.parent, one)) for one in components) if components else None
        for components in manifest.components()
    )
    return Dataset(manifest, train, test)


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
    for component in itertools.chain(*manifest.components()):
        for one in (component, *component.row_splits):
            if _array_sha256(_open_array(folder / one.file, one)) != one.sha256:
                own = manifest.origin == "own"
                source = "own-dataset FILE.py:FUNCTION" if own else f"dataset {manifest.dataset}"
                raise UserError(
                    f"{folder / one.file}: changed since it was prepared; prepare it again: "
                    f"nodewise prepare-{source} --out {folder}"
                )
    return manifest


def _open(folder: Path, component: Component) -> Array | Ragged:
    values, *splits = (
        _open_array(folder / one.file, one) for one in (component, *component.row_splits)
    )
    return Ragged(values, tuple(split.astype(np.int64) for split in splits)) if splits else values


def _open_array(path: Path, expected: ArrayFile) -> Array:
    dtype = np.dtype(expected.dtype)
    try:
        # like np.load(mmap_mode="r"), but for .npy files only: no zip files, no pickles
        array: Array = np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError, EOFError) as error:
        reason = getattr(error, "strerror", None) or "not a whole .npy file"
        raise UserError(f"{path}: {reason}; prepare the dataset again") from error
    if array.shape != expected.shape or array.dtype != dtype or not array.flags.c_contiguous:
        wanted = f"{dtype.name} of {'×'.join(map(str, expected.shape))}"
        raise UserError(f"{path}: not {wanted} as its manifest says; prepare it again")
    return array

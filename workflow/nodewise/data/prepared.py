"""A prepared dataset: arrays in a folder, and a manifest that says what they are.

A dataset of the registry has four arrays, those of `Arrays`. A user's own dataset has two sets,
train and test, each of which is a structure of arrays as `fit` takes it, such as (x, y).
"""

import hashlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError, model_validator

from nodewise.core.cell import Frozen, Name
from nodewise.core.errors import RefusedError, UserError
from nodewise.core.fetch import FileName, Sha256
from nodewise.core.files import atomic, write_json
from nodewise.core.schema import first_error, read_json
from nodewise.data.structures import Array, Place, Ragged, Structure, count, flat, nested
from nodewise.results.record import Origin

MANIFEST = "manifest.json"


class Arrays(NamedTuple):
    """Examples of the registry and their labels. Each array is stored as `<name>.npy`.

    x is (examples, …) of one of the types of `RegistryManifest.dtype`: images uint8, N × H × W × C;
    token ids uint16, N × tokens, 0 being padding. y is (examples,) uint8, each an index into
    `RegistryManifest.classes`.
    """

    x_train: Array
    y_train: NDArray[np.uint8]
    x_test: Array
    y_test: NDArray[np.uint8]


class ManifestFile(Frozen):
    """One file the arrays were made from."""

    name: FileName
    content_sha256: Sha256
    origin: Literal["official", "mirror"]


class ArrayDigests(Frozen):
    """The SHA-256 of the bytes of each array (little-endian, C order)."""

    x_train: Sha256
    y_train: Sha256
    x_test: Sha256
    y_test: Sha256


class ArrayFile(Frozen):
    """An array of a set. `sha256` is that of its bytes (little-endian, C order)."""

    file: str = Field(pattern=r"^[a-z]+_[a-z0-9_]+\.npy$")
    dtype: str = Field(pattern=r"^(bool|u?int(8|16|32|64)|float(16|32|64)|\|S[0-9]+)$")
    shape: tuple[Annotated[int, Field(ge=1)], ...] = Field(min_length=1)
    sha256: Sha256


class Component(ArrayFile):
    """What is at the place `path` of a set: an array (examples, …).

    Or a ragged one, with the arrays of `row_splits`, see `Ragged`.
    """

    path: Place
    row_splits: tuple[ArrayFile, ...] = ()

    @property
    def examples(self) -> int:
        """The number of examples."""
        return self.row_splits[0].shape[0] - 1 if self.row_splits else self.shape[0]


Components = tuple[Component, ...]


class Manifest(Frozen):
    """What a prepared dataset is. Equal content gives equal text, wherever it came from last.

    `origin` is "official" if every file came from its official address, "mirror" if at least one
    came from a mirror, "generated" for a stand-in, "own" for a user's own data. `note` tells how
    the examples differ from the official ones. `sha256` is over all arrays.
    """

    dataset: Name
    title: str = Field(min_length=1)
    origin: Origin
    note: str | None = None
    sha256: Sha256
    train_examples: int = Field(ge=1)
    test_examples: int = Field(ge=0)

    def components(self) -> tuple[Components, Components]:
        """Return the arrays of the training set and of the test set; none if there is no such."""
        raise NotImplementedError

    def check_usable(self) -> None:
        """Check that there is something to train on.

        Raises:
            RefusedError: there is not; it says why.
        """


class RegistryManifest(Manifest):
    """What a prepared dataset of the registry is.

    `seed` is that of a stand-in, which has no `files`. `sha256` is that of `arrays_sha256`;
    `arrays` has the SHA-256 of the bytes of each, by which `check_arrays` finds one that changed.
    """

    origin: Literal["official", "mirror", "generated"]
    seed: int | None = None
    arrays: ArrayDigests
    files: tuple[ManifestFile, ...] = ()
    test_examples: int = Field(ge=1)
    shape: tuple[int, ...]
    dtype: Literal["uint8", "uint16", "int32", "float32"]
    classes: tuple[str, ...] = Field(min_length=2, max_length=256)
    licence: str | None = None
    licence_url: str | None = None

    def components(self) -> tuple[Components, Components]:
        """Return (x, y) of each set."""

        def component(name: str, digest: str) -> Component:
            examples = name.startswith("x")
            number = self.train_examples if name.endswith("train") else self.test_examples
            return Component(
                path=(0 if examples else 1,),
                file=f"{name}.npy",
                dtype=self.dtype if examples else "uint8",
                shape=(number, *self.shape) if examples else (number,),
                sha256=digest,
            )

        x_train, y_train, x_test, y_test = (component(*one) for one in self.arrays)
        return (x_train, y_train), (x_test, y_test)

    @model_validator(mode="after")
    def _one_story(self) -> Self:
        if not self.files and self.origin in ("official", "mirror"):
            raise ValueError(f"files: data of origin {self.origin} was made from some")
        if self.files and self.origin != overall_origin(self.files):
            raise ValueError(f"origin is {self.origin}, but not by its files")
        if (self.seed is None) == (self.origin == "generated"):
            raise ValueError("seed: generated data has one, other data has none")
        return self


class OwnManifest(Manifest):
    """What a user's own dataset is.

    `train` and `test` have the arrays of its sets; `test` none if there is no test set. `sha256`
    is over `train` and `test`, which have the digests of the arrays. `refused` says why there are
    none at all, if what the user's function returned cannot be used.
    """

    origin: Literal["own"] = "own"
    train_examples: int = Field(ge=0)
    train: Components = ()
    test: Components = ()
    refused: str | None = None

    @model_validator(mode="after")
    def _structured(self) -> Self:
        for components, number in zip(
            self.components(), (self.train_examples, self.test_examples), strict=True
        ):
            if components:
                nested((one.path, one) for one in components)
            if any(one.examples != number for one in components):
                raise ValueError(f"shape: not all arrays have {number} examples")
        if (self.train_examples == 0) == bool(self.train):
            raise ValueError("train_examples: a training set has some")
        if (self.test_examples == 0) == bool(self.test):
            raise ValueError("test_examples: a test set has some")
        if (self.refused is None) != bool(self.train):
            raise ValueError("refused: data without a training set is, and no other")
        return self

    def components(self) -> tuple[Components, Components]:
        """Return the arrays of both sets."""
        return self.train, self.test

    def check_usable(self) -> None:
        """Check that the dataset was not refused.

        Raises:
            RefusedError: it was; it says why.
        """
        if self.refused is not None:
            raise RefusedError(self.refused)


@dataclass(frozen=True)
class Dataset:
    """A prepared dataset: its manifest and sets, whose arrays are memory-mapped and read-only.

    `train` and `test` are what `fit` takes, mostly (x, y) or (x, y, sample_weight), with x and y
    as `fit` hands them on: arrays, ragged or not, or nested tuples and dicts of such. `test` may be
    None.
    """

    manifest: Manifest
    train: Structure
    test: Structure

    @property
    def train_examples(self) -> int:
        """The number of training examples."""
        return count(self.train)

    @property
    def test_examples(self) -> int:
        """The number of test examples, 0 without a test set."""
        return 0 if self.test is None else count(self.test)

    @property
    def x_train(self) -> Array:
        """The x of the training set (x, y)."""
        return self.train[0]  # type: ignore[no-any-return]

    @property
    def y_train(self) -> Array:
        """The y of the training set (x, y)."""
        return self.train[1]  # type: ignore[no-any-return]

    @property
    def x_test(self) -> Array:
        """The x of the test set (x, y)."""
        return self.test[0]  # type: ignore[no-any-return]

    @property
    def y_test(self) -> Array:
        """The y of the test set (x, y)."""
        return self.test[1]  # type: ignore[no-any-return]


def overall_origin(files: tuple[ManifestFile, ...]) -> Literal["official", "mirror"]:
    """Return the origin of data made of `files`: one mirrored file makes the whole mirrored."""
    return "mirror" if any(file.origin == "mirror" for file in files) else "official"


def arrays_sha256(arrays: Arrays) -> str:
    """Return one digest for all arrays: of their types, shapes and bytes (little-endian, C order).

    The same for read and drawn data, and for every way of packing the same examples.
    """
    digest = hashlib.sha256()
    for name, array in arrays._asdict().items():
        digest.update(f"{name} {array.dtype.name} {array.shape}\n".encode())
        digest.update(_stored(array).data)
    return digest.hexdigest()


def write(
    out: Path,
    arrays: Arrays,
    *,
    dataset: str,
    origin: Origin,
    title: str,
    classes: tuple[str, ...],
    note: str | None = None,
    seed: int | None = None,
    files: tuple[ManifestFile, ...] = (),
    licence: str | None = None,
    licence_url: str | None = None,
) -> RegistryManifest:
    """Write `arrays` of the registry and their manifest to the folder `out`, for `load`.

    Everything but `out` and `arrays` is told in the manifest as it is, see `RegistryManifest`.

    Raises:
        UserError: the arrays are none of a dataset, or do not fit each other or the classes.
        OSError: `out` cannot be written.
    """
    for error in _errors(arrays, len(classes)):
        raise UserError(f"{dataset}: {error}")
    try:
        manifest = RegistryManifest(
            dataset=dataset,
            title=title,
            origin=origin,  # type: ignore[arg-type] # checked by the model
            note=note,
            seed=seed,
            files=files,
            sha256=arrays_sha256(arrays),
            arrays=ArrayDigests(**{n: _array_sha256(a) for n, a in arrays._asdict().items()}),
            train_examples=len(arrays.y_train),
            test_examples=len(arrays.y_test),
            shape=arrays.x_train.shape[1:],
            dtype=arrays.x_train.dtype.name,  # type: ignore[arg-type] # checked by the model
            classes=classes,
            licence=licence,
            licence_url=licence_url,
        )
    except ValidationError as error:
        raise UserError(f"{dataset}: {first_error(error)}") from error
    _write(out, manifest, {f"{name}.npy": array for name, array in arrays._asdict().items()})
    return manifest


def write_own(
    out: Path, train: Structure, test: Structure | None, *, dataset: str, title: str
) -> OwnManifest:
    """Write a user's own sets and their manifest to the folder `out`, for `load`.

    Raises:
        UserError: an array is of a type that cannot be stored.
        OSError: `out` cannot be written.
    """
    sets = {
        split: [
            (path, _files(f"{split}_{number}", one)) for number, (path, one) in enumerate(found)
        ]
        for split, found in (("train", flat(train)), ("test", () if test is None else flat(test)))
    }
    try:
        components = {
            split: tuple(_component(path, files) for path, files in found)
            for split, found in sets.items()
        }
        manifest = OwnManifest(
            dataset=dataset,
            title=title,
            sha256=_components_sha256(components),
            train_examples=count(train),
            test_examples=0 if test is None else count(test),
            train=components["train"],
            test=components["test"],
        )
    except ValidationError as error:
        raise UserError(f"{title}: {first_error(error)}") from error
    files = itertools.chain(*sets.values())
    _write(out, manifest, {file: array for _, arrays in files for file, array in arrays.items()})
    return manifest


def write_refusal(out: Path, *, dataset: str, title: str, reason: str) -> None:
    """Write a manifest that says why there are no arrays, so that cells are refused with it.

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
    """Return the plain arrays that an array is stored as, by their files, values first."""
    if not isinstance(array, Ragged):
        return {f"{name}.npy": array}
    splits = {f"{name}_splits_{level}.npy": one for level, one in enumerate(array.row_splits)}
    return {f"{name}.npy": array.values} | splits


def _component(path: Place, files: dict[str, Array]) -> Component:
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
    told = {split: [one.model_dump() for one in components] for split, components in sets.items()}
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def _write(out: Path, manifest: Manifest, arrays: dict[str, Array]) -> None:
    """Write files. The manifest comes last; until then there is none, not even an old one."""
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
    """Yield what is wrong with the arrays of a dataset; the manifest checks their type."""
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


def load(manifest: Path) -> Dataset:
    """Open the prepared dataset that `manifest` describes.

    Raises:
        UserError: the manifest or an array is missing, damaged, or does not fit the other.
        RefusedError: there are no arrays, since a user's own dataset was refused.
    """
    told = read_manifest(manifest)
    told.check_usable()
    train, test = (
        nested((one.path, _open(manifest.parent, one)) for one in components)
        if components
        else None
        for components in told.components()
    )
    return Dataset(told, train, test)


class _Kind(BaseModel):
    origin: Origin


def read_manifest(path: Path) -> Manifest:
    """Read the manifest of a dataset of the registry, or of a user's own.

    Raises:
        UserError: it is missing or damaged.
    """
    advice = "prepare the dataset again"
    own = read_json(_Kind, path, advice).origin == "own"
    return read_json(OwnManifest if own else RegistryManifest, path, advice)


def check_arrays(manifest: Path) -> Manifest:
    """Check the arrays of a prepared dataset against their digests; return its manifest.

    It reads every byte, so a launcher does it once and its workers only `load`.

    Raises:
        UserError: as `load`, or an array changed since it was prepared.
    """
    told = read_manifest(manifest)
    for component in itertools.chain(*told.components()):
        for one in (component, *component.row_splits):
            path = manifest.parent / one.file
            if _array_sha256(_open_array(path, one)) != one.sha256:
                own = told.origin == "own"
                what = "own-dataset FILE.py:FUNCTION" if own else f"dataset {told.dataset}"
                raise UserError(
                    f"{path}: changed since it was prepared; prepare it again: nodewise "
                    f"prepare-{what} --out {manifest.parent}"
                )
    return told


def _open(folder: Path, component: Component) -> Array | Ragged:
    values, *splits = (
        _open_array(folder / one.file, one) for one in (component, *component.row_splits)
    )
    return Ragged(values, tuple(split.astype(np.int64) for split in splits)) if splits else values


def _open_array(path: Path, told: ArrayFile) -> Array:
    kind = np.dtype(told.dtype)
    try:
        # What np.load(mmap_mode="r") does, but for .npy alone: no zip files, no pickles.
        array: Array = np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError, EOFError) as error:
        reason = getattr(error, "strerror", None) or "not a whole .npy file"
        raise UserError(f"{path}: {reason}; prepare the dataset again") from error
    if array.shape != told.shape or array.dtype != kind or not array.flags.c_contiguous:
        wanted = f"{kind.name} of {'×'.join(map(str, told.shape))}"
        raise UserError(f"{path}: not {wanted} as its manifest says; prepare it again")
    return array

"""A prepared dataset: four arrays in a folder, and a manifest that says what they are."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from nodewise.core.cell import Frozen, Name
from nodewise.core.errors import UserError
from nodewise.core.fetch import FileName, Sha256
from nodewise.core.files import atomic, write_json
from nodewise.core.schema import first_error, read_json
from nodewise.results.record import Origin

MANIFEST = "manifest.json"

Array = NDArray[np.generic]


class Arrays(NamedTuple):
    """Examples and their labels. Each array is stored as `<name>.npy`.

    x is (examples, …) of one of the types of `Manifest.dtype`: images uint8, N × H × W × C; token
    ids uint16, N × tokens, 0 being padding; a user's own examples in any shape. y is (examples,)
    uint8, each an index into `Manifest.classes`.
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


class Manifest(Frozen):
    """What a prepared dataset is. Equal content gives equal text, wherever it came from last.

    `origin` is "official" if every file came from its official address, "mirror" if at least one
    came from a mirror, "generated" for a stand-in, "own" for a user's own data; the last two have
    no `files`. `note` tells how the examples differ from the official ones. `seed` is that of a
    stand-in. `sha256` is over the four arrays, see `arrays_sha256`; `arrays` has the SHA-256 of
    the bytes of each, by which `check_arrays` finds one that changed.
    """

    dataset: Name
    title: str = Field(min_length=1)
    origin: Origin
    note: str | None = None
    seed: int | None = None
    sha256: Sha256
    arrays: ArrayDigests
    files: tuple[ManifestFile, ...] = ()
    train_examples: int = Field(ge=1)
    test_examples: int = Field(ge=1)
    shape: tuple[int, ...]
    dtype: Literal["uint8", "uint16", "int32", "float32"]
    classes: tuple[str, ...] = Field(min_length=2, max_length=256)
    licence: str | None = None
    licence_url: str | None = None

    @model_validator(mode="after")
    def _one_story(self) -> Self:
        if not self.files and self.origin in ("official", "mirror"):
            raise ValueError(f"files: data of origin {self.origin} was made from some")
        if self.files and self.origin != overall_origin(self.files):
            raise ValueError(f"origin is {self.origin}, but not by its files")
        if (self.seed is None) == (self.origin == "generated"):
            raise ValueError("seed: generated data has one, other data has none")
        return self


TYPES: tuple[str, ...] = get_args(Manifest.model_fields["dtype"].annotation)
"""The types of examples."""
MOST_CLASSES = 256


@dataclass(frozen=True)
class Dataset:
    """The arrays of a prepared dataset (see `Arrays`), memory-mapped, read-only; its manifest."""

    manifest: Manifest
    x_train: Array
    y_train: NDArray[np.uint8]
    x_test: Array
    y_test: NDArray[np.uint8]


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
) -> Manifest:
    """Write `arrays` and their manifest to the folder `out`, for `load`.

    The manifest comes last, and until then there is none, not even an old one. For a user's own
    data: `write(out, arrays, dataset=…, origin="own", title=…, classes=(…))`.

    Everything but `out` and `arrays` is told in the manifest as it is, see `Manifest`.

    Raises:
        UserError: the arrays are none of a dataset, or do not fit each other or the classes.
        OSError: `out` cannot be written.
    """
    for error in _errors(arrays, len(classes)):
        raise UserError(f"{dataset}: {error}")
    try:
        manifest = Manifest(
            dataset=dataset,
            title=title,
            origin=origin,
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
    out.mkdir(parents=True, exist_ok=True)
    (out / MANIFEST).unlink(missing_ok=True)
    for name, array in arrays._asdict().items():
        with atomic(out / f"{name}.npy") as temporary, temporary.open("wb") as file:
            np.save(file, _stored(array), allow_pickle=False)
    write_json(out / MANIFEST, manifest.model_dump(mode="json"))
    return manifest


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
    """
    told = read_json(Manifest, manifest, "prepare the dataset again")
    examples = {"train": told.train_examples, "test": told.test_examples}
    arrays: dict[str, Any] = {}
    for name in Arrays._fields:
        letter, split = name.split("_")
        shape = (examples[split], *(told.shape if letter == "x" else ()))
        kind = told.dtype if letter == "x" else "uint8"
        arrays[name] = _open_array(manifest.parent / f"{name}.npy", shape, np.dtype(kind))
    return Dataset(told, **arrays)


def check_arrays(manifest: Path) -> Manifest:
    """Check the arrays of a prepared dataset against their digests; return its manifest.

    It reads every byte, so a launcher does it once and its workers only `load`.

    Raises:
        UserError: as `load`, or an array changed since it was prepared.
    """
    data = load(manifest)
    told = data.manifest
    for name, digest in told.arrays:
        if _array_sha256(getattr(data, name)) != digest:
            own = told.origin == "own"
            what = "own-dataset FILE.py:FUNCTION" if own else f"dataset {told.dataset}"
            raise UserError(
                f"{manifest.parent / name}.npy: changed since it was prepared; prepare it again: "
                f"nodewise prepare-{what} --out {manifest.parent}"
            )
    return told


def _open_array(path: Path, shape: tuple[int, ...], kind: np.dtype[Any]) -> Array:
    try:
        # What np.load(mmap_mode="r") does, but for .npy alone: no zip files, no pickles.
        array: Array = np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError, EOFError) as error:
        reason = getattr(error, "strerror", None) or "not a whole .npy file"
        raise UserError(f"{path}: {reason}; prepare the dataset again") from error
    if array.shape != shape or array.dtype != kind or not array.flags.c_contiguous:
        wanted = f"{kind.name} of {'×'.join(map(str, shape))}"
        raise UserError(f"{path}: not {wanted} as its manifest says; prepare it again")
    return array

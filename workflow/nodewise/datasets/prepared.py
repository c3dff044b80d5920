"""A prepared dataset: four arrays in a folder, and a manifest that says what they are."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from nodewise.cells import Frozen, Name
from nodewise.datasets.registry import ROLES, FileName, Role, Sha256
from nodewise.errors import UserError
from nodewise.misfits import first_misfit
from nodewise.records import Origin

MANIFEST = "manifest.json"
ARRAY_FILES: dict[Role, str] = {
    "train_images": "x_train.npy",
    "train_labels": "y_train.npy",
    "test_images": "x_test.npy",
    "test_labels": "y_test.npy",
}


class ManifestFile(Frozen):
    """One file the arrays were made from; of a stand-in, the file that it would fill."""

    role: Role
    name: FileName
    content_sha256: Sha256
    origin: Origin


class Manifest(Frozen):
    """What a prepared dataset is. Equal content gives equal text, wherever it came from last.

    `origin` is "official" if every file came from its official address, "mirror" if at least one
    came from a mirror (all are the official content, by checksum), "generated" for a stand-in.
    `seed` is that of a stand-in. `sha256` is over the four content digests, see `combined_sha256`.
    """

    dataset: Name
    title: str
    origin: Origin
    seed: int | None
    sha256: Sha256
    files: tuple[ManifestFile, ...]
    train_examples: int = Field(ge=1)
    test_examples: int = Field(ge=1)
    shape: tuple[int, int, int]
    classes: tuple[str, ...]
    licence: str
    licence_url: str | None

    @model_validator(mode="after")
    def _one_story(self) -> Self:
        if tuple(file.role for file in self.files) != ROLES:
            raise ValueError(f"files: need the roles {', '.join(ROLES)}, in this order")
        if self.origin != overall_origin(self.files):
            raise ValueError(f"origin is {self.origin}, but not by its files")
        if self.sha256 != combined_sha256(self.files):
            raise ValueError("sha256 does not follow from the files")
        if (self.seed is None) == (self.origin == "generated"):
            raise ValueError("seed: generated data has one, real data has none")
        return self


@dataclass(frozen=True)
class Dataset:
    """The arrays of a prepared dataset, memory-mapped, read-only, and its manifest.

    Images are uint8, N × H × W × C; labels are uint8, N, each an index into `manifest.classes`.
    """

    manifest: Manifest
    x_train: NDArray[np.uint8]
    y_train: NDArray[np.uint8]
    x_test: NDArray[np.uint8]
    y_test: NDArray[np.uint8]


def overall_origin(files: tuple[ManifestFile, ...]) -> Origin:
    """Return the origin of a dataset made of `files`.

    Raises:
        ValueError: generated and real files are mixed.
    """
    origins = {file.origin for file in files}
    if "generated" in origins and len(origins) > 1:
        raise ValueError("generated and real files must not be mixed")
    for origin in ("generated", "mirror"):
        if origin in origins:
            return origin
    return "official"


def combined_sha256(files: tuple[ManifestFile, ...]) -> str:
    """Return one digest for all files: SHA-256 of their content digests in hex, one per line."""
    lines = "".join(f"{file.content_sha256}\n" for file in files)
    return hashlib.sha256(lines.encode()).hexdigest()


def load(manifest: Path) -> Dataset:
    """Open the prepared dataset that `manifest` describes.

    Raises:
        UserError: the manifest or an array is missing, damaged, or does not fit the other.
    """
    told = _read_manifest(manifest)
    examples = {"train": told.train_examples, "test": told.test_examples}
    arrays = {}
    for role, name in ARRAY_FILES.items():
        split, kind = role.split("_")
        shape = (examples[split], *told.shape) if kind == "images" else (examples[split],)
        arrays[name.removesuffix(".npy")] = _open_array(manifest.parent / name, shape)
    return Dataset(told, **arrays)


def _read_manifest(path: Path) -> Manifest:
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    except ValidationError as error:
        raise UserError(f"{path}: {first_misfit(error)}; prepare the dataset again") from error


def _open_array(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    try:
        # What np.load(mmap_mode="r") does, but for .npy alone: no zip files, no pickles.
        array: NDArray[np.uint8] = np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError, EOFError) as error:
        reason = getattr(error, "strerror", None) or "not a whole .npy file"
        raise UserError(f"{path}: {reason}; prepare the dataset again") from error
    if array.shape != shape or array.dtype != np.uint8:
        wanted = "×".join(map(str, shape))
        raise UserError(f"{path}: not {wanted} bytes as its manifest says; prepare it again")
    return array

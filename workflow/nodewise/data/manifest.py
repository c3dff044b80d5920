"""Manifest of a prepared dataset: what its arrays are and where they came from."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, model_validator

from nodewise.core.cell import Frozen, Name
from nodewise.core.errors import RefusedError
from nodewise.core.fetch import FileName, Sha256
from nodewise.core.schema import read_json
from nodewise.data.structures import KeyPath, nested
from nodewise.results.record import Origin

MANIFEST = "manifest.json"


class ManifestFile(Frozen):
    """A file from which the arrays were made."""

    name: FileName
    content_sha256: Sha256
    origin: Literal["official", "mirror"]


class ArrayDigests(Frozen):
    """SHA-256 of the bytes of each array (little-endian, C order)."""

    x_train: Sha256
    y_train: Sha256
    x_test: Sha256
    y_test: Sha256


class ArrayFile(Frozen):
    """A stored array. `sha256` is the digest of its bytes (little-endian, C order)."""

    file: str = Field(pattern=r"^[a-z]+_[a-z0-9_]+\.npy$")
    dtype: str = Field(pattern=r"^(bool|u?int(8|16|32|64)|float(16|32|64)|\|S[0-9]+)$")
    shape: tuple[Annotated[int, Field(ge=1)], ...] = Field(min_length=1)
    sha256: Sha256


class Component(ArrayFile):
    """An array (examples, …) of a training or test set.

    Args:
        path: its position in the structure of the set.
        row_splits: the row splits of a ragged array, see `Ragged`; empty for other arrays.
    """

    path: KeyPath
    row_splits: tuple[ArrayFile, ...] = ()

    @property
    def examples(self) -> int:
        """The number of examples."""
        return self.row_splits[0].shape[0] - 1 if self.row_splits else self.shape[0]


Components = tuple[Component, ...]


class Manifest(Frozen):
    """Description of a prepared dataset.

    Equal content of equal origin gives an equal manifest, no matter whether the files were fetched
    or were in the cache.

    Args:
        origin: "official" if all files came from their official addresses, "mirror" if at least one
            came from a mirror, "generated" for synthetic data, "own" for a user's own data.
        note: how the examples differ from the official ones; None if they do not.
        sha256: digest over all arrays.
    """

    dataset: Name
    title: str = Field(min_length=1)
    origin: Origin
    note: str | None = None
    sha256: Sha256
    train_examples: int = Field(ge=1)
    test_examples: int = Field(ge=0)

    def components(self) -> tuple[Components, Components]:
        """Return the arrays of the training set and of the test set; empty for a missing set."""
        raise NotImplementedError

    def check_usable(self) -> None:
        """Check that the dataset can be used for training.

        Raises:
            RefusedError: it cannot be used; the message says why.
        """


class RegistryManifest(Manifest):
    """Description of a prepared dataset of the registry.

    Args:
        sha256: result of `arrays_sha256`.
        seed: seed of synthetic data; None for other data.
        arrays: digest of each array, by which `check_arrays` finds an array that has changed.
        files: files from which the arrays were made; empty for synthetic data.
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
        """Return the arrays (x, y) of the training set and of the test set."""

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
    """Description of a user's own dataset.

    Args:
        sha256: digest over `train` and `test`, which contain the digests of the arrays.
        train: arrays of the training set.
        test: arrays of the test set; empty if there is none.
        refused: why there are no arrays at all, if the result of the user's function cannot be
            used; otherwise None.
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
            RefusedError: it was refused; the message says why.
        """
        if self.refused is not None:
            raise RefusedError(self.refused)


def overall_origin(files: tuple[ManifestFile, ...]) -> Literal["official", "mirror"]:
    """Return the origin of data made from `files`: "mirror" if any file came from a mirror."""
    return "mirror" if any(file.origin == "mirror" for file in files) else "official"


class _Kind(BaseModel):
    origin: Origin


def read_manifest(path: Path) -> Manifest:
    """Read the manifest of a dataset of the registry or of a user's own dataset.

    Raises:
        UserError: the manifest is missing or damaged.
    """
    advice = "prepare the dataset again"
    own = read_json(_Kind, path, advice).origin == "own"
    return read_json(OwnManifest if own else RegistryManifest, path, advice)

"""Facts about a dataset and its files that are known before any file is fetched."""

import math
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from nodewise.core.cell import Frozen, Line
from nodewise.data.fetch import RemoteFile, Sha256, Url

MAX_EXAMPLE_BYTES = 2**30

Size = Annotated[int, Field(ge=1)]


class SourceFile(RemoteFile):
    """One file of a dataset."""

    content_sha256: Sha256

    @property
    def digest(self) -> str:
        """Digest of the content."""
        return f"sha256:{self.content_sha256}"


class Facts(Frozen):
    """Facts about a dataset that do not depend on the format of its files.

    Args:
        synthetic: whether synthetic data replaces the dataset if it is not available.
        shape: shape of an example: height, width and channels of an image, or the number of tokens
            of a text.
        dtype: uint8 for images, uint16 for tokens.
        split_seed: decides the order of the examples, and which of them are for training, if the
            files leave this open.
    """

    title: Line
    licence: Line
    licence_url: Url
    synthetic: bool
    classes: tuple[Line, ...] = Field(min_length=2, max_length=256)
    shape: tuple[Size] | tuple[Size, Size, Size]
    dtype: Literal["uint8", "uint16"]
    train_examples: int = Field(ge=1)
    test_examples: int = Field(ge=1)
    split_seed: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _reasonable(self) -> Self:
        if len(set(self.classes)) != len(self.classes):
            raise ValueError("classes: two have the same name")
        if self.dtype != ("uint8" if len(self.shape) == 3 else "uint16"):
            raise ValueError("dtype: images are uint8, tokens uint16")
        values = math.prod(self.shape) * (self.train_examples + self.test_examples)
        if values * np.dtype(self.dtype).itemsize > MAX_EXAMPLE_BYTES:
            raise ValueError(f"shape: more than {MAX_EXAMPLE_BYTES:,} bytes of examples")
        return self

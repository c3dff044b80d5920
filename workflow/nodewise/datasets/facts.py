"""What is known of a dataset and of its files, before any of them is there."""

import math
from typing import Annotated, ClassVar, Literal, Self
from urllib.parse import urlsplit

import numpy as np
from pydantic import AfterValidator, Field, StringConstraints, model_validator

from nodewise.cells import Frozen, Name

MAX_CONTENT_BYTES = 2**30  # of one file, or of all examples

StandIn = Literal["digits", "garments", "objects", "photos", "reviews"]


def _plain_web_address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ValueError("must be an http(s) address without a user name")
    return url


# Starts with no dot and has no slash, so it stays in its folder and is never a hidden file.
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Url = Annotated[str, AfterValidator(_plain_web_address)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=120, pattern=r"^[^\n]+$")]
Size = Annotated[int, Field(ge=1)]


class RemoteFile(Frozen):
    """One file as servers have it; digest and size are of its content.

    That is what is inside its gzip wrapping if `gzipped`, else the file itself. In the cache and in
    a mirror it is in `folder`, by default the one of what it belongs to.
    """

    gzipped: ClassVar[bool] = False
    name: FileName
    folder: Name | None = None
    content_bytes: int = Field(ge=1, le=MAX_CONTENT_BYTES)
    urls: tuple[Url, ...] = ()

    @property
    def digest(self) -> tuple[str, str]:
        """The algorithm and the hexadecimal digest that the content is known by."""
        raise NotImplementedError


class SourceFile(RemoteFile):
    """One file of a dataset."""

    content_sha256: Sha256

    @property
    def digest(self) -> tuple[str, str]:
        """SHA-256, and its digits."""
        return "SHA-256", self.content_sha256


class Facts(Frozen):
    """What one dataset is, in whatever files it comes.

    `shape` is that of an example: height, width, channels of an image (`dtype` uint8), or the
    number of tokens of a text (uint16). `split_seed` fixes the order of the examples, and which are
    for training, wherever the files leave that open.
    """

    title: Text
    licence: Text
    licence_url: Url
    stand_in: StandIn | None
    classes: tuple[Text, ...] = Field(min_length=2, max_length=256)
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
        if values * np.dtype(self.dtype).itemsize > MAX_CONTENT_BYTES:
            raise ValueError(f"shape: more than {MAX_CONTENT_BYTES:,} bytes of examples")
        return self

"""JPEG pictures in a zip archive, in a folder per class."""

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, StringConstraints

from nodewise.data.facts import Facts, SourceFile
from nodewise.data.formats.api import BaseRelease
from nodewise.data.formats.archive import Read, open_zip
from nodewise.data.formats.labelled import Item, labelled
from nodewise.data.prepared import Arrays

Folder = Annotated[str, StringConstraints(pattern=r"^\w+(/\w+)*$", max_length=100)]


class ImageZip(BaseRelease):
    """`folders` are one for training and one for testing, or one to be split; see `labelled`."""

    format: Literal["image_zip"]
    file: SourceFile
    folders: tuple[Folder, ...] = Field(min_length=1, max_length=2)

    def files_needed(self) -> tuple[SourceFile, ...]:
        """Return the archive."""
        return (self.file,)

    def check(self, facts: Facts) -> None:
        """Refuse what has not three colours, or no seed."""
        if facts.shape[2:] != (3,):
            raise ValueError("shape: image_zip has height, width and three colours")
        if facts.split_seed is None:
            raise ValueError("split_seed: image_zip needs it")

    def read(
        self, facts: Facts, paths: Mapping[str, Path], advance: Callable[[int], None]
    ) -> Arrays:
        """Return the decoded pictures."""
        try:
            with open_zip(paths[self.file.name]) as (names, read):
                train, test = labelled(names, self.folders, facts, ".jpg")
                return Arrays(
                    *_decode_all(train, read, facts.shape, advance),
                    *_decode_all(test, read, facts.shape, advance),
                )
        except ValueError as error:
            raise ValueError(f"{self.file.name}: {error}") from error


def _decode_all(
    items: list[Item], read: Read, shape: tuple[int, ...], advance: Callable[[int], None]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    images = np.empty((len(items), *shape), np.uint8)
    for row, (name, _) in enumerate(items):
        images[row] = decode(name, read(name), shape)
        advance(1)
    return images, np.array([label for _, label in items], np.uint8)


def decode(name: str, content: bytes, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return the picture in a JPEG file: H × W × 3. Grey ones become coloured ones.

    Raises:
        ValueError: it is damaged, or of another size, which is known before it is decoded.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(content), formats=["JPEG"]) as image:
            if (image.height, image.width) != shape[:2]:
                found = f"{image.height}×{image.width}"
                raise ValueError(f"{name}: {found} pixels, expected {shape[0]}×{shape[1]}")
            return np.asarray(image.convert("RGB"))
    except UnidentifiedImageError as error:
        raise ValueError(f"{name}: not a JPEG picture") from error
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"{name}: damaged ({error})") from error

"""JPEG images in a zip archive, with one folder per class."""

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
    """JPEG images in a zip archive.

    `folders` are one folder for training and one for testing, or one folder that is split; see
    `labelled`.
    """

    format: Literal["image_zip"]
    file: SourceFile
    folders: tuple[Folder, ...] = Field(min_length=1, max_length=2)

    def files_needed(self) -> tuple[SourceFile, ...]:
        """Return the archive."""
        return (self.file,)

    def check(self, facts: Facts) -> None:
        """Raise a ValueError unless there are three colours and a seed."""
        if facts.shape[2:] != (3,):
            raise ValueError("shape: image_zip has height, width and three colours")
        if facts.split_seed is None:
            raise ValueError("split_seed: image_zip needs it")

    def read(
        self, facts: Facts, paths: Mapping[str, Path], advance: Callable[[int], None]
    ) -> Arrays:
        """Read and decode the images; return them with their labels."""
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
    """Decode a JPEG file into an array of H × W × 3. Grey images are converted to RGB.

    Raises:
        ValueError: the file is damaged, or the image has another size. The size is checked before
            the image is decoded.
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

"""JPEG images in a zip archive, with one folder per class."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal
from zipfile import ZipFile

import numpy as np
from pydantic import Field, StringConstraints

from nodewise.data.facts import Facts, SourceFile
from nodewise.data.formats.api import BaseRelease, Labelled, labelled

Folder = Annotated[str, StringConstraints(pattern=r"^\w+(/\w+)*$", max_length=100)]


class ImageZip(BaseRelease):
    """JPEG images in a zip archive. Grey images are converted to RGB.

    `folders` are one folder for training and one for testing, or one folder that is split; see
    `labelled`.
    """

    format: Literal["image_zip"]
    file: SourceFile
    folders: tuple[Folder, ...] = Field(min_length=1, max_length=2)

    def read(self, facts: Facts, paths: Mapping[str, Path]) -> tuple[Labelled, Labelled]:
        """Read and decode the images; return them with their labels."""
        from PIL import Image

        with ZipFile(paths[self.file.name]) as archive:

            def decoded(names: list[str], labels: list[int]) -> Labelled:
                images = np.empty((len(names), *facts.shape), np.uint8)
                for row, name in enumerate(names):
                    with Image.open(io.BytesIO(archive.read(name)), formats=["JPEG"]) as image:
                        if (image.height, image.width) != facts.shape[:2]:  # before decoding it
                            raise ValueError(f"{name}: {image.height}×{image.width} pixels")
                        images[row] = image.convert("RGB")
                return images, np.array(labels, np.uint8)

            train, test = labelled(archive.namelist(), self.folders, facts, ".jpg")
            return decoded(*train), decoded(*test)

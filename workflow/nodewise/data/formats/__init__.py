"""Formats in which datasets are released, one module each.

The fields of a release class are the files it needs, and `read` reads them into arrays.
"""

from typing import Annotated

from pydantic import Field

from nodewise.data.formats.cifar_binary import CifarBinary
from nodewise.data.formats.idx import Idx
from nodewise.data.formats.image_zip import ImageZip
from nodewise.data.formats.review_zip import ReviewZip

Release = Annotated[Idx | CifarBinary | ImageZip | ReviewZip, Field(discriminator="format")]

__all__ = ["Release"]

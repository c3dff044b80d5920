"""The forms in which a dataset is released: one module each, with what it needs and how it is read.

A release class says which files it takes (`files_needed`) and makes arrays of them (`read`).
"""

from typing import Annotated

from pydantic import Field

from nodewise.data.formats.cifar_binary import CifarBinary
from nodewise.data.formats.idx import Idx
from nodewise.data.formats.image_zip import ImageZip
from nodewise.data.formats.review_zip import ReviewZip

Release = Annotated[Idx | CifarBinary | ImageZip | ReviewZip, Field(discriminator="format")]

__all__ = ["Release"]

"""Import curves from published studies, tables of users, and logs of other tools.

Each module registers its importer when it is imported: `IMPORTERS.add("my_format", MyFormat())`. A
module may also be in another package that registers an entry point in the group
`nodewise.importers`.
"""

from pathlib import Path
from typing import Protocol

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.core.registry import Registry
from nodewise.core.schema import read_start
from nodewise.results.curves import Measurements, measurements


class Importer(Protocol):
    """The interface of importers, which read files of one format."""

    def sniff(self, path: Path) -> bool:
        """Return whether the file looks like this format. Reading its start is enough."""

    def read(self, path: Path) -> pd.DataFrame:
        """Return one row per measurement, with columns of `curves.CurveRow`.

        Columns that the file does not contain (curve, nodes, batch) are left out.

        Raises:
            UserError: the file is invalid. The message names the file and the line.
        """


IMPORTERS: Registry[Importer] = Registry("format", __name__, "nodewise.importers")

_LFS_POINTER = b"version https://git-lfs"


def read_rows(path: Path, name: str | None = None) -> pd.DataFrame:
    """Read the rows of a file with the importer of its format.

    Args:
        path: the file.
        name: name of the format, one of `IMPORTERS`. By default the format is recognised.

    Raises:
        UserError: no format or several formats fit, or the file is invalid.
    """
    try:
        start = read_start(path, len(_LFS_POINTER))
        names = [name] if name else [one for one in IMPORTERS if IMPORTERS[one].sniff(path)]
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    if not names and path.suffix == ".csv":
        names = ["csv"]  # whose importer says which columns are missing
    if not start:
        raise UserError(f"{path}: is empty")
    if start == _LFS_POINTER:
        raise UserError(f"{path}: is a pointer of Git LFS; fetch the file with: git lfs pull")
    if not names:
        raise UserError(
            f"{path}: is of no format that is known ({', '.join(IMPORTERS)}); "
            "`nodewise import --pattern` reads any log"
        )
    if len(names) > 1:
        raise UserError(f"{path}: may be {' or '.join(names)}; name it with --format")
    return IMPORTERS.find(names[0]).read(path)


def import_curves(path: Path, name: str | None = None) -> Measurements:
    """Read the curves of a file; see `read_rows`.

    Raises:
        UserError: as `read_rows`, or the file lacks values that curves need.
    """
    return measurements(read_rows(path, name), path)

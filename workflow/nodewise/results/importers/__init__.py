"""Curves from other sources than records: published studies, users' tables, other tools.

A module here, or one that another package names as an entry point of `nodewise.importers`,
registers its importer when it is imported: `IMPORTERS.add("my_format", MyFormat())`.
"""

from pathlib import Path
from typing import Protocol

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.core.registry import Registry
from nodewise.results.curve_rows import measurements
from nodewise.results.curves import Measurements


class Importer(Protocol):
    """Reads curves from files of one format."""

    def sniff(self, path: Path) -> bool:
        """Return whether the file looks like one of this format; its start suffices."""

    def read(self, path: Path) -> pd.DataFrame:
        """Return one row per measurement, with columns of `curve_rows.CURVE_ROWS`.

        Raises:
            UserError: the file is wrong; the text names it, and the line.
        """


IMPORTERS: Registry[Importer] = Registry(
    "format", "nodewise.results.importers", "nodewise.importers"
)


def import_curves(path: Path, name: str | None = None) -> Measurements:
    """Read the curves of a file.

    Args:
        path: the file.
        name: of its format, one of `IMPORTERS`; without one, the format is recognised.

    Raises:
        UserError: no format fits, or several do; or the file is wrong.
    """
    if not path.is_file():
        reason = "it is no regular file" if path.exists() else "no such file"
        raise UserError(f"{path}: cannot be read ({reason})")
    importer = IMPORTERS[_recognise(path)] if name is None else IMPORTERS.find(name)
    return measurements(importer.read(path), path)


def _recognise(path: Path) -> str:
    """Return the name of a file's format; that of any other `.csv` file is csv, which says more."""
    try:
        names = [name for name, importer in IMPORTERS.items() if importer.sniff(path)]
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    if len(names) == 1:
        return names[0]
    if not names and path.suffix == ".csv":
        return "csv"
    found = f"may be {' or '.join(names)}" if names else "is of no format that is known"
    raise UserError(f"{path}: {found}; name it with --format: {', '.join(names or IMPORTERS)}")

"""Read and write tables as files: CSV for people and other tools, Parquet for speed."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.core.files import atomic
from nodewise.results.columns import COLUMNS

TableTypes = Mapping[str, dict[str, str]]

# store texts as Python strings: tables are small, and few values are read at a time
pd.set_option("mode.string_storage", "python")


def write_tables(tables: dict[str, pd.DataFrame], out_dir: Path) -> None:
    """Write each table to `NAME.csv` and `NAME.parquet`, each file atomically."""
    for name, table in tables.items():
        write_csv(table, out_dir / f"{name}.csv")
        with atomic(out_dir / f"{name}.parquet") as path:
            table.to_parquet(path, index=False)


def read_tables(folder: Path, columns: TableTypes = COLUMNS) -> dict[str, pd.DataFrame]:
    """Read the tables with these columns that `write_tables` wrote.

    Raises:
        UserError: a table is missing, is unreadable, or lacks a column.
    """
    return {name: read_file(folder / f"{name}.parquet", columns[name]) for name in columns}


def typed(rows: pd.DataFrame | Iterable[dict[str, Any]], columns: dict[str, str]) -> pd.DataFrame:
    """Return `rows` as a table with exactly `columns` (name -> dtype), in that order."""
    table = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(list(rows), columns=[*columns])
    return table[[*columns]].astype(columns).reset_index(drop=True)


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV atomically."""
    with atomic(path) as temporary:
        table.to_csv(temporary, index=False, lineterminator="\n", date_format="%Y-%m-%dT%H:%M:%SZ")


def read_file(path: Path, columns: dict[str, str]) -> pd.DataFrame:
    """Read a table with these columns from a Parquet file, or from CSV that `write_csv` wrote.

    Raises:
        UserError: the file is missing, is unreadable, or lacks a column.
    """
    exact = {name: dtype for name, dtype in columns.items() if dtype in ("str", "int64")}
    try:
        if path.suffix == ".parquet":
            import pyarrow  # noqa: F401 (pandas does not say which module is missing)

            return typed(pd.read_parquet(path), columns)
        texts = {name: "" for name, dtype in exact.items() if dtype == "str"}
        return typed(pd.read_csv(path, dtype=exact).fillna(texts), columns)
    except FileNotFoundError as error:
        raise UserError(f"{path}: there is no such table; make the tables first") from error
    except KeyError as error:
        raise UserError(f"{path}: a column is missing ({error.args[0]})") from error
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: is not a table of this version ({error})") from error

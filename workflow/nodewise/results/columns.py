"""What the columns of tables and figures are called and mean, from columns.yaml."""

from functools import cache
from pathlib import Path
from typing import Any

from nodewise.core.schema import read_tree

_FILE = Path(__file__).with_name("columns.yaml")


def title_of_column(name: str) -> str:
    """Return the title of a column: its name in words, if it needs no other."""
    return str(_read()["titles"].get(name, name.replace("_", " ").capitalize()))


def explain_table(name: str) -> tuple[str, dict[str, str]]:
    """Return what a row of a table is, and what each of its columns means."""
    table = _read()["tables"][name]
    return table["row"], table["columns"]


@cache
def _read() -> dict[str, Any]:
    read: dict[str, Any] = read_tree(_FILE)
    return read

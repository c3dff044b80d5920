"""The columns of every table and their types, from columns.yaml.

A table always has all of its columns. All times are in seconds, all sizes in bytes.
"""

from pathlib import Path
from typing import Any

from nodewise.core.schema import read_tree

SINGLE = "single"
"""The strategy without communication, to which speed-ups refer."""
PARTS = ("compute", "wait", "communicate", "apply")

# all others are tables of `nodewise build-tables`
_OF_FITS = ("fits", "predictions", "optima", "steps_to_accuracy", "trials")
_EXPLAINED: Any = read_tree(Path(__file__).with_name("columns.yaml"))
_TYPE_OF = {name: type_ for type_, names in _EXPLAINED["types"].items() for name in names}
_TYPES = {
    name: {
        column: (_TYPE_OF | table.get("types", {})).get(column, "float64")
        for column in table["columns"]
    }
    for name, table in _EXPLAINED["tables"].items()
}
COLUMNS = {name: columns for name, columns in _TYPES.items() if name not in _OF_FITS}
"""The types of the columns of each table, in the order of the columns."""
FIT_COLUMNS = {name: columns for name, columns in _TYPES.items() if name in _OF_FITS}
"""The same for the tables of fits and of their validation."""
AXES = ["study", "experiment", "model", "dataset", "strategy", "cluster"]
AXES += ["batch_per_worker", "nodes"]
SPLIT = [f"{part}_s" for part in PARTS]
CURVE_KEY = [*AXES, "kind", "data_origin", "whole_epochs"]
ONE_NODE_KEY = [name for name in CURVE_KEY if name not in ("strategy", "nodes")]
"""The columns in which a point equals the one-node point that it is compared with."""


def title_of_column(name: str) -> str:
    """Return the title of a column: from columns.yaml, or else its name in words."""
    return str(_EXPLAINED["titles"].get(name, name.replace("_", " ").capitalize()))


def explain_table(name: str) -> tuple[str, dict[str, str]]:
    """Return the meaning of a row of a table, and the meaning of each of its columns."""
    table = _EXPLAINED["tables"][name]
    return table["row"], table["columns"]

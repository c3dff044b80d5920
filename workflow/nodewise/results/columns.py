"""The columns of every table, with their types. What they are called and mean is in columns.yaml.

A table has its columns whatever the records hold. Times are seconds, sizes are bytes, everywhere.
"""

from pathlib import Path
from typing import Any

from nodewise.core.schema import read_tree

SINGLE = "single"
"""The strategy without communication: the base of every speed-up."""
PARTS = ("compute", "wait", "communicate", "apply")

_TEXTS = (
    *("cell_id", "study", "experiment", "model", "dataset", "strategy", "cluster", "exchange"),
    *("options", "status", "reason", "kind", "data_origin", "machine", "weights", "flags", "input"),
    *("energy_kind", "commit", "record_sha256", "observation", "pipeline", "curve", "link"),
    *("collective", "printed_dataset", "printed_name"),
    # of fits
    *("source", "law", "settings", "title", "parameter", "meaning", "unit", "note", "scenario"),
    *("trained", "bound", "overhead", "evidence", "objective", "held", "answer", "basis"),
    "missing",
)
_FLAGS = (
    *("oversubscribed", "whole_epochs", "timed", "fitted", "borrowed"),
    *("chosen", "beyond", "own", "best", "near", "break_even", "interior"),
)
_COUNTS = (
    *("batch_per_worker", "nodes", "repeat", "global_batch", "epoch", "step", "values", "repeats"),
    *("cells", "failed", "group", "small_batch", "big_batch", "curves", "points"),
)
_COUNTS_OR_NONE = (
    *("preprocessing_nodes", "nodes_per_machine", "steps", "steps_per_epoch", "epochs"),
    *("trainable_parameters", "payload_bytes", "discarded_blocks", "printed_batch"),
)
_DTYPES = {  # all other columns are float64
    **dict.fromkeys(_TEXTS, "str"),
    **dict.fromkeys(_FLAGS, "bool"),
    **dict.fromkeys(_COUNTS, "int64"),
    **dict.fromkeys(_COUNTS_OR_NONE, "Int64"),
    "started_at": "datetime64[us, UTC]",
}
_IN_TABLE = {  # where a column has another type than in the other tables
    "epochs": {"steps": "int64"},
    "curve_points": {
        "batch_per_worker": "float64",
        "nodes_per_machine": "float64",
        "payload_bytes": "float64",
        "steps_per_epoch": "float64",
    },
    "published": {"epochs": "int64"},
    "published_runs": {"batch_per_worker": "Int64", "epochs": "int64"},
    "fits": {"batch_per_worker": "Int64"},
    "predictions": {"payload_bytes": "float64"},
    "optima": {"batch_per_worker": "float64", "global_batch": "float64"},
    "savings": {"batch_per_worker": "Int64"},
}
_BUILT = (  # by `nodewise build-tables`; the others are of fits
    *("cells", "epochs", "steps", "observations", "curves"),
    *("curve_points", "noise_scale", "published", "published_runs"),
)
_EXPLAINED: Any = read_tree(Path(__file__).with_name("columns.yaml"))

_TYPES: dict[str, dict[str, str]] = {
    table: {
        name: _IN_TABLE.get(table, {}).get(name, _DTYPES.get(name, "float64"))
        for name in explained["columns"]
    }
    for table, explained in _EXPLAINED["tables"].items()
}
COLUMNS = {name: columns for name, columns in _TYPES.items() if name in _BUILT}
"""The type of each column, by table, in their order."""
OVERHEAD = {name: columns for name, columns in _TYPES.items() if name not in _BUILT}
"""The same of the tables of fits, and of how these are judged."""
CELLS, CURVES, CURVE_POINTS = COLUMNS["cells"], COLUMNS["curves"], COLUMNS["curve_points"]
EPOCHS, STEPS, OBSERVATIONS = COLUMNS["epochs"], COLUMNS["steps"], COLUMNS["observations"]
NOISE_SCALE = COLUMNS["noise_scale"]
PUBLISHED, PUBLISHED_RUNS = COLUMNS["published"], COLUMNS["published_runs"]
AXES = {
    name: CELLS[name]
    for name in (
        *("study", "experiment", "model", "dataset", "strategy", "cluster"),
        *("batch_per_worker", "nodes"),
    )
}
SPLIT = {f"{part}_s": "float64" for part in PARTS}
CURVE_KEY = [*AXES, "kind", "data_origin", "whole_epochs"]
ONE_NODE_KEY = [name for name in CURVE_KEY if name not in ("strategy", "nodes")]
"""What a point has in common with the one node that it is compared with."""


def title_of_column(name: str) -> str:
    """Return the title of a column: its name in words, if it needs no other."""
    return str(_EXPLAINED["titles"].get(name, name.replace("_", " ").capitalize()))


def explain_table(name: str) -> tuple[str, dict[str, str]]:
    """Return what a row of a table is, and what each of its columns means."""
    table = _EXPLAINED["tables"][name]
    return table["row"], table["columns"]

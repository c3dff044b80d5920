"""Split a chart with too many lines into several panels (small multiples)."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from nodewise.core.cell import node_in_words
from nodewise.core.units import counted, write_number

MOST_LINES = 6
"""Most lines of a plot."""
MOST_OF_ONE_COLOUR = 4
"""Most lines of a plot in which lines differ only by shades and dashes of one colour."""


def panels(
    rows: pd.DataFrame, lines: Sequence[str], most: int = MOST_LINES, name: str = ""
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Split the rows of a chart into panels and yield each with its name.

    The rows are split by the first column of `lines`, into as few panels of neighbouring values as
    possible. If a single value has too many lines, its panel is split by the next column. Rows in
    which the column is empty, such as published ones, are in every panel for comparison. A chart
    that needs no split has the name `name`.

    Args:
        rows: the rows of the chart.
        lines: the columns that distinguish its lines, the ones to split by first.
        most: the most lines that a panel may have.
        name: a prefix of the names, for panels that are split again.
    """
    if not lines:
        yield name, rows
        return
    column, *rest = lines
    shared = rows[column] == ""
    values = np.array(sorted(rows.loc[~shared, column].unique()))
    parts = [rows]
    for count in range(2, len(values) + 1):
        if all(len(part[[*lines]].drop_duplicates()) <= most for part in parts):
            break
        parts = [rows[rows[column].isin(of) | shared] for of in np.array_split(values, count)]
    for place, part in enumerate(parts, 1):
        names = [name]
        if len(parts) > 1:
            own = part.loc[part[column] != "", column]
            names.append(_in_words(own, f"{place} of {len(parts)}"))
        yield from panels(part, rest, most, ", ".join(filter(None, names)))


def _in_words(values: pd.Series, place: str) -> str:
    """Return the name of a panel: the range of its values, or its `place` if these are names."""
    low, high = values.min(), values.max()
    if values.name == "cluster" and low == high:
        return node_in_words(low)
    if values.name == "nodes":
        return counted(low, "node") if low == high else f"{low} to {high} nodes"
    if values.name == "batch_per_worker":
        return f"batch {low}" if low == high else f"batches {low} to {high}"
    if values.name == "payload_bytes":
        return " to ".join(dict.fromkeys(write_number(end, "B") for end in (low, high)))
    return place

"""Small multiples: a chart of too many lines becomes several panels."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from nodewise.core.cell import node_in_words
from nodewise.core.units import counted, write_number

MOST_LINES = 6
"""How many lines a plot may have."""
MOST_OF_ONE_COLOUR = 4
"""How many it may have if they are told apart by shades and dashes of one colour."""


def panels(
    rows: pd.DataFrame, lines: Sequence[str], most: int = MOST_LINES, name: str = ""
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the panels of a chart, each with its name; one chart of few lines has no name.

    Neighbouring values of the first of the columns share a panel, as many as fit. Where a single
    value has too many lines, they are told apart by the next column, too. Rows without a value,
    such as what is published, are in every panel: others are compared with them.

    Args:
        rows: what one chart draws.
        lines: the columns that tell its lines from each other, those to part them by first.
        most: how many lines a panel may have.
        name: what the panels of a panel have before their own name.
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
    """Return which values of a column a panel has; of several names, which `place` it has."""
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

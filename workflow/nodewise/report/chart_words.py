"""Write the title and the description of a chart from its data."""

import math
from string import Formatter
from typing import Any

import pandas as pd

from nodewise.core.units import write_number
from nodewise.report.figure import Figure
from nodewise.results.columns import title_of_column

_MOST_POINTS = 8  # of a line, in a description


def finding(figure: Figure, rows: pd.DataFrame) -> str:
    """Return the title that states what the points of a chart show.

    Only points that count as evidence are told of; see `Figure.title`. The title is empty if there
    are none, or if a value that it needs is missing.
    """
    told = rows.query(figure.told) if figure.told else rows
    if "lacks" in told:
        told = told[told["lacks"] == ""]
    rank = [*(figure.rank or filter(None, (figure.place.field, figure.colour or figure.facet)))]
    told = told.dropna(subset=rank).sort_values(rank, kind="stable")
    if told.empty:
        return ""
    last = told.iloc[-1]
    first = told[(told[rank[:-1]] == last[rank[:-1]]).all(axis=1)].iloc[0]
    words = _written(figure, last)
    if first[rank[-1]] != last[rank[-1]]:
        words |= {f"{name}_first": text for name, text in _written(figure, first).items()}
    for template in figure.title:
        names = {name for _, name, _, _ in Formatter().parse(template) if name}
        if names <= words.keys():
            return template.format(**words)
    return ""


def describe(figure: Figure, rows: pd.DataFrame) -> str:
    """Return the description of a chart: its values, line by line or bar by bar.

    Of many lines only the first and the last one are described, and of many points of a line some.
    """
    value, place = figure.value, figure.place
    if figure.mark == "bar":
        lines, place_field = [figure.facet, place.field], figure.colour
    else:
        lines, place_field = ["kind", figure.facet, figure.colour], place.field
    lines = [name for name in dict.fromkeys(lines) if name and name in rows]
    groups = [(key, part) for key, part in rows.groupby(lines, sort=False, dropna=False)]
    shown = groups if len(groups) <= 4 else [groups[0], groups[-1]]
    several = {name for name in lines if rows[name].nunique() > 1 or name == "kind"}
    sentences = []
    for key, part in shown:
        named = dict(zip(lines, key, strict=True))
        name = ", ".join(_named(column, named[column]) for column in lines if column in several)
        points = part.dropna(subset=value.field)
        step = max(1, math.ceil(len(points) / _MOST_POINTS))
        points = pd.concat([points.iloc[:-1:step], points.iloc[-1:]])
        said = ", ".join(
            f"{_value(figure, value.field, one)} {_at(figure, place_field, where)}"
            for one, where in zip(points[value.field], points[place_field], strict=True)
        )
        sentences.append(f"{name[:1].upper()}{name[1:]}: {said}." if name else f"{said}.")
    return f"{figure.plots}. {' '.join(sentences)}"


def _named(column: str, value: object) -> str:
    numeric = isinstance(value, int | float)
    return f"{title_of_column(column).lower()} {value:,g}" if numeric else str(value)


def _at(figure: Figure, field: str, value: object) -> str:
    if isinstance(value, str):
        return f"({value})" if figure.mark != "bar" else value
    return f"at {_value(figure, field, value)}"


def _written(figure: Figure, row: "pd.Series[Any]") -> dict[str, str]:
    """Return the values of a row in words, without those that are missing."""
    return {
        str(name): _value(figure, str(name), value)
        for name, value in row.items()
        if not pd.isna(value) and value != ""
    }


def _value(figure: Figure, field: str, value: object) -> str:
    """Return a value in words, with the unit of its axis or its column."""
    if isinstance(value, str) or pd.api.types.is_bool(value):
        return str(value)
    units = {axis.field: axis.unit for axis in (figure.x, figure.y) if axis.unit}
    ends = dict.fromkeys(figure.interval or (), figure.value.unit)
    unit = (ends | units | {**figure.units}).get(field, "")
    return write_number(float(str(value)), unit).replace(" ", "\u00a0")

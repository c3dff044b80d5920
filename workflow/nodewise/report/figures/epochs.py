"""Figures of loss and accuracy over the epochs."""

from typing import Any

import altair as alt
import pandas as pd

from nodewise.report import theme
from nodewise.report.figure import Figure, View, inline
from nodewise.report.figures import _findings, figure
from nodewise.report.figures._encodings import (
    by_batch,
    by_value,
    dash_legend,
    kind_shape,
    kinds_of,
    label_expression,
    legend_columns,
    strategy_titles,
    tooltip,
    whole_ticks,
)
from nodewise.report.figures._words import values_in_words
from nodewise.results import queries

_UNCOLOURED = 2  # strategies that need no colour each: one, and its beginning on one node
_LINE = ["nodes", "batch_per_worker", "strategy"]
_DECLARED: dict[str, Any] = {
    "tables": "cells epochs",
    "rows": queries.epochs,
    "axes": ["experiment", "model", "dataset", "kind"],
    "lines": _LINE,
    "section": "Loss and accuracy by epoch",
}


@figure("loss-by-epoch", order=70, **_DECLARED)
def loss_by_epoch(rows: pd.DataFrame) -> Figure:
    """Draw the training loss over the epochs; no loss is below zero."""
    return _by_epoch(rows, "loss", {"domainMin": 0})


@figure("accuracy-by-epoch", order=71, **_DECLARED)
def accuracy_by_epoch(rows: pd.DataFrame) -> Figure:
    """Draw the training accuracy over the epochs; none is above one."""
    return _by_epoch(rows, "accuracy", {"domainMax": 1})


def _by_epoch(rows: pd.DataFrame, value: str, end: dict[str, Any]) -> Figure:
    """Draw training `loss` or `accuracy` (`value`) over the epochs, a line for each point.

    `end` is where the axis ends on one side, whatever the lines do.
    """
    names = [*_LINE, "epoch"]
    data = _over_launches(rows, value)
    title = f"Training {value}"
    view = View("absolute", f"{title} by epoch", value, title)
    x = alt.X("epoch:Q", title="Epoch").axis(values=whole_ticks(data["epoch"]), format="d")
    colour, fill = _colours(rows)

    def y(column: str) -> alt.Y:
        scale = alt.Scale(zero=False, padding=10, **end)
        return alt.Y(f"{column}:Q", title=title, scale=scale)

    base = alt.Chart(inline(data)).encode(
        x=x.scale(zero=False, nice=False, padding=12),
        y=y(value),
        color=colour,
        detail=alt.Detail([f"{name}:N" for name in _LINE]),
    )
    dash = alt.StrokeDash("nodes:O", title="Nodes", legend=dash_legend())
    points = base.mark_point(size=30, opacity=1).encode(
        fill=fill,
        shape=kind_shape(data),
        tooltip=tooltip(data, ["kind", *names, value, "least", "most", "repeats"]),
    )
    several = bool(data["repeats"].max() > 1)
    band = base.mark_area(opacity=0.15).encode(y=y("least"), y2=alt.Y2("most"))
    last = data[data["epoch"] == data["epoch"].max()]
    return Figure(
        finding=_findings.describe_last_epoch(last, value, strategy_titles(rows)),
        layers=[
            *([band] if several else []),
            base.mark_line(strokeWidth=1.8).encode(strokeDash=dash),
            points,
        ],
        data=data,
        title=view.heading,
        kinds=kinds_of(data),
        alt=f"{title}, after the last epoch. {values_in_words(last, value, 'accuracy')}",
        caption=f"The mean {value} over the epoch, taken while the weights were still moving."
        + (" Lines: median over launches; shaded: from the least to the most." * several),
        views=(view,) if value == "loss" else (),
    )


def _over_launches(rows: pd.DataFrame, value: str) -> pd.DataFrame:
    """Return the median of `value` over the launches of each line, with the `least` and `most`."""
    launches = rows.groupby(["kind", *_LINE, "epoch"], as_index=False)
    return launches.agg(
        **{value: (value, "median")},
        least=(value, "min"),
        most=(value, "max"),
        repeats=("cell_id", "nunique"),
        cell_id=("cell_id", "first"),
    )


def _colours(rows: pd.DataFrame) -> tuple[alt.Color, alt.Fill]:
    """Return the colours of the strategies, or those of the batches where strategies are few."""
    titles = strategy_titles(rows)
    names = sorted(titles)
    if len(names) <= _UNCOLOURED:
        return by_batch(rows)
    legend = alt.Legend(
        symbolOpacity=1, columns=legend_columns(1, 2, 3), labelExpr=label_expression(titles)
    )
    return by_value("strategy:N", "Strategy", names, theme.CATEGORIES[: len(names)], legend)

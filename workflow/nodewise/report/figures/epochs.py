"""Figures of loss and accuracy over the epochs."""

from typing import Any

import altair as alt
import pandas as pd

from nodewise.report import theme
from nodewise.report.figure import Figure, View, inline
from nodewise.report.figures import _rows, figure
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

_UNCOLOURED = 2  # strategies that need no colour each: one, and its beginning on one node
_DECLARED: dict[str, Any] = {
    "tables": "cells epochs",
    "rows": _rows.epochs,
    "axes": ["experiment", "model", "dataset", "kind", "panel"],
    "section": "Loss and accuracy by epoch",
}


@figure("loss-by-epoch", order=70, **_DECLARED)
def loss_by_epoch(rows: pd.DataFrame) -> Figure:
    """Draw the training loss over the epochs; no loss is below zero."""
    return _by_epoch(rows, "loss", {"domainMin": 0, "domainMax": rows["most_loss"].iloc[0]})


@figure("accuracy-by-epoch", order=71, **_DECLARED)
def accuracy_by_epoch(rows: pd.DataFrame) -> Figure:
    """Draw the training accuracy over the epochs; none is above one."""
    ends = {"domainMin": rows["least_accuracy"].iloc[0], "domainMax": 1}
    return _by_epoch(rows, "accuracy", ends)


def _by_epoch(rows: pd.DataFrame, value: str, ends: dict[str, float]) -> Figure:
    """Draw training `loss` or `accuracy` (`value`) over the epochs (`_rows.epochs`).

    `ends` are those of the axis, NaN where the lines decide; panels of one chart share them.
    """
    names = ["strategy", "batch_per_worker", "nodes", "repeat", "epoch"]
    data = rows[["kind", *names, value, "cell_id"]]
    title = f"Training {value}"
    view = View("absolute", f"{title} by epoch", value, title)
    known: dict[str, Any] = {end: at for end, at in ends.items() if pd.notna(at)}
    x = alt.X("epoch:Q", title="Epoch").axis(values=whole_ticks(data["epoch"]), format="d")
    colour, fill = _colours(rows)
    base = alt.Chart(inline(data)).encode(
        x=x.scale(zero=False, nice=False, padding=12),
        y=alt.Y(f"{value}:Q", title=title).scale(zero=False, padding=10, **known),
        color=colour,
        detail=alt.Detail(["strategy:N", "batch_per_worker:O", "repeat:N", "nodes:O"]),
    )
    dash = alt.StrokeDash("nodes:O", title="Nodes", legend=dash_legend())
    points = base.mark_point(size=30, opacity=1).encode(
        fill=fill, shape=kind_shape(data), tooltip=tooltip(data, ["kind", *names, value])
    )
    last = data[data["epoch"] == data["epoch"].max()]
    return Figure(
        layers=[base.mark_line(strokeWidth=1.8).encode(strokeDash=dash), points],
        data=data,
        title=view.heading,
        kinds=kinds_of(data),
        alt=f"{title}, after the last epoch. {values_in_words(last, value, 'accuracy')}",
        caption=f"The mean {value} over the epoch, taken while the weights were still moving.",
        views=(view,) if value == "loss" else (),
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

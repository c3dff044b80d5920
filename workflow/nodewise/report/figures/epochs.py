"""Draw training loss and accuracy over the epochs."""

from typing import Any

import altair as alt
import pandas as pd

from nodewise.core.units import counted
from nodewise.report.figure import NOT_FROM_ZERO, Figure, inline
from nodewise.report.figures import _findings, figure
from nodewise.report.figures._encodings import (
    by_batch,
    dash_legend,
    kind_shape,
    kinds_of,
    label_expression,
    legend_columns,
    strategies_behind,
    strategy_titles,
    tooltip,
    whole_ticks,
)
from nodewise.report.figures._series import Series, by_series
from nodewise.report.figures._words import values_in_words
from nodewise.results.columns import SINGLE
from nodewise.results.queries import Tables, with_labels

_LINE = ["nodes", "batch_per_worker", "strategy"]
_MOVING = (
    "taken while the weights were still changing. Lines are the median over launches, shaded from "
    "the least to the most."
)


def _epochs(tables: Tables) -> pd.DataFrame:
    """Return the table `epochs` of the cells that trained whole epochs, with labels as kinds."""
    whole = tables["cells"].loc[tables["cells"]["whole_epochs"], "cell_id"]
    rows = tables["epochs"][tables["epochs"]["cell_id"].isin(whole)].reset_index(drop=True)
    return rows.assign(kind=with_labels(rows)["accuracy_label"])


_DECLARED: dict[str, Any] = {
    "tables": "cells epochs",
    "rows": _epochs,
    "axes": ["experiment", "model", "dataset", "kind"],
    "lines": _LINE,
    "section": "Loss and accuracy by epoch",
}


@figure(
    "loss-by-epoch",
    plots="Training loss by epoch",
    reading=f"The mean loss over the epoch, {_MOVING}",
    order=70,
    **_DECLARED,
)
def loss_by_epoch(rows: pd.DataFrame) -> Figure:
    """Draw the training loss over the epochs; the axis begins at zero."""
    return _by_epoch(rows, "loss", {"domainMin": 0})


@figure(
    "accuracy-by-epoch",
    plots="Training accuracy by epoch",
    reading=f"The mean accuracy over the epoch, {_MOVING}",
    order=71,
    **_DECLARED,
)
def accuracy_by_epoch(rows: pd.DataFrame) -> Figure:
    """Draw the training accuracy over the epochs; the axis ends at one."""
    return _by_epoch(rows, "accuracy", {"domainMax": 1})


def _by_epoch(rows: pd.DataFrame, value: str, end: dict[str, Any]) -> Figure:
    """Draw training loss or accuracy over the epochs, one line for each point.

    Args:
        rows: the rows of one drawing.
        value: `loss` or `accuracy`.
        end: the fixed end of the value axis, as a setting of its scale.
    """
    names = [*_LINE, "epoch"]
    data = _over_launches(rows, value)
    title = f"Training {value}"
    x = alt.X("epoch:Q", title="Epoch").axis(values=whole_ticks(data["epoch"]), format="d")
    titles = strategy_titles(rows)
    line_titles = _line_titles(data, titles)
    if len({*titles} - {SINGLE}) < 2 and data["batch_per_worker"].nunique() > 1:
        colour, fill = by_batch(data)
        dash = alt.StrokeDash("nodes:O", title="Nodes", legend=dash_legend())
    else:
        colour, fill, dash = _by_strategy(data, line_titles, strategies_behind(rows))
    series = list(map(_series_name, *(data[name] for name in _LINE)))

    def y(column: str) -> alt.Y:
        scale = alt.Scale(zero=False, padding=10, **end)
        said = title if "domainMin" in end else f"{title}{NOT_FROM_ZERO}"
        return alt.Y(f"{column}:Q", title=said, scale=scale)

    base = alt.Chart(inline(data.assign(series=series))).encode(
        x=x.scale(zero=False, nice=False, padding=12),
        y=y(value),
        color=colour,
        detail=alt.Detail([f"{name}:N" for name in _LINE]),
    )
    points = base.mark_point(size=30, opacity=1).encode(
        fill=fill,
        shape=kind_shape(data),
        tooltip=tooltip(data, ["kind", *names, value, "least", "most", "repeats"]),
    )
    several = bool(data["repeats"].max() > 1)
    band = base.mark_area(opacity=0.15).encode(y=y("least"), y2=alt.Y2("most"))
    last = data[data["epoch"] == data["epoch"].max()]
    return Figure(
        finding=_findings.describe_last_epoch(last, value, titles),
        layers=[
            *([band] if several else []),
            base.mark_line(strokeWidth=1.8).encode(strokeDash=dash),
            points,
        ],
        data=data,
        title=f"{title} by epoch",
        kinds=kinds_of(data),
        alt=f"{title}, after the last epoch. {values_in_words(last, value, 'accuracy')}",
        caption="Shaded: from the lowest to the highest launch." * several,
    )


def _over_launches(rows: pd.DataFrame, value: str) -> pd.DataFrame:
    """Return the median of `value` over launches, by line and epoch, with `least` and `most`."""
    launches = rows.groupby(["kind", *_LINE, "epoch"], as_index=False)
    return launches.agg(
        **{value: (value, "median")},
        least=(value, "min"),
        most=(value, "max"),
        repeats=("cell_id", "nunique"),
        cell_id=("cell_id", "first"),
    )


def _by_strategy(
    data: pd.DataFrame, line_titles: dict[str, str], behind: dict[str, str]
) -> tuple[alt.Color, alt.Fill, alt.StrokeDash]:
    """Return the colours and dashes of lines of several strategies.

    In the legend, each strategy comes before its variants.
    """
    lines = sorted(
        data[_LINE].drop_duplicates().itertuples(index=False, name=None),
        key=lambda line: (behind[line[2]], line[2] != behind[line[2]], line),
    )
    kind = str(data["kind"].iloc[0])
    series = [Series(_series_name(*line), behind[line[2]], line[2], kind) for line in lines]
    legend = alt.Legend(columns=legend_columns(1, 1, 2), labelExpr=label_expression(line_titles))
    return by_series(series, legend)


def _line_titles(data: pd.DataFrame, titles: dict[str, str]) -> dict[str, str]:
    """Return the title of each line, by the name of its series.

    A title has the strategy, and the nodes and the batch if lines differ in these.
    """
    several = {name: data[name].nunique() > 1 for name in _LINE}
    found = {}
    for nodes, batch, strategy in data[_LINE].drop_duplicates().itertuples(index=False, name=None):
        said = [titles[strategy]]
        said += [counted(nodes, "node")] * several["nodes"]
        said += [f"batch {batch}"] * several["batch_per_worker"]
        found[_series_name(nodes, batch, strategy)] = ", ".join(said)
    return found


def _series_name(nodes: int, batch: int, strategy: str) -> str:
    return f"{strategy}/{nodes}/{batch}"

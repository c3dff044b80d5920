"""Figures of the overhead formulas: their fit to the points, and the speed-up that they tell."""

from collections.abc import Callable

import altair as alt
import pandas as pd

from nodewise.charts import theme
from nodewise.charts.figure import Figure, in_words, inline, layered, tooltip
from nodewise.charts.scaling import HOLLOW, batch_colour, batch_fill

_ALONG = "Along the line the formula is fitted; where the line is dashed, it predicts."
HELD_OUT = "predicted, held out"
_POINT = ["batch_per_worker", "nodes"]


def overhead_fit(rows: pd.DataFrame, of: dict[str, str], kind: str) -> Figure:
    """Draw fitted step times, the observed ones, and the held-out predictions.

    Args:
        rows: one curve of `views.fit_roles`.
        of: the axes that the rows share.
        kind: the kind of the observed points.
    """
    values = ["observed_s", "fitted_s", "low_s", "high_s", "error"]
    data = rows[["role", "scenario", *_POINT, *values, "flags"]]
    drawn = data["observed_s"].where(data["role"] == "observed", data["fitted_s"])
    domain = [float(drawn.min()) / 1.4, float(drawn.max()) * 1.4]  # an interval may reach far out
    scale = alt.Scale(type="log", nice=False, domain=domain)

    def y(field: str) -> alt.Y:
        return alt.Y(field, title="Step time (s, log scale)", scale=scale)

    kinds = _kinds(data, kind)
    layers = _layers(data, kind, ("fitted_s", "observed_s"), y)
    if data["low_s"].notna().any():
        layers.insert(0, _interval(data, y))
    crosses = " A cross is what the formula gave for a point that it was not shown."
    return Figure(
        figure="fit",
        of=of,
        chart=layered(*layers),
        data=data,
        title="Step time: the formula and the points",
        kinds=kinds,
        alt=f"Step time. {in_words(_told(data.assign(s=drawn), kind), 's', 's')}",
        caption=f"{_ALONG} Shaded: its interval. {HOLLOW}"
        + (crosses if (data["role"] == "held out").any() else ""),
    )


def outlook(rows: pd.DataFrame, of: dict[str, str], kind: str) -> Figure:
    """Draw the speed-up against one node, by the formula and of the points.

    Args:
        rows: one curve of `views.speedup_roles`.
        of: the axes that the rows share.
        kind: the kind of the observed points.
    """
    data = rows[["role", *_POINT, "speedup", "flags"]]

    def y(field: str) -> alt.Y:
        return alt.Y(field, title="Speed-up against one node").scale(zero=True)

    even = alt.Chart(pd.DataFrame({"speedup": [1]})).mark_rule(strokeDash=[3, 4])
    layers = [even.encode(y=y("speedup:Q")), *_layers(data, kind, ("speedup", "speedup"), y)]
    return Figure(
        figure="outlook",
        of=of,
        chart=layered(*layers),
        data=data,
        title="How much faster are more nodes?",
        kinds=_kinds(data, kind),
        alt=f"Speed-up against one node. {in_words(_told(data, kind), 'speedup', '×')}",
        caption=(
            "Throughput against one node at the same batch per worker. Below the dashed rule, one "
            f"node is faster. {_ALONG} {HOLLOW}"
        ),
    )


def _told(data: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Return the rows to say in words: observed, fitted, and predicted at the end of the line."""
    ends = (data["role"] != "predicted") | (data["nodes"] == data["nodes"].max())
    rows: pd.DataFrame = data[ends & (data["role"] != "held out")]
    return rows.assign(kind=rows["role"].replace("observed", kind))


def _kinds(data: pd.DataFrame, kind: str) -> list[str]:
    told = data["role"].replace({"observed": kind, "held out": "predicted"})
    return [label for label in (kind, "fitted", "predicted") if (told == label).any()]


def _layers(
    data: pd.DataFrame, kind: str, values: tuple[str, str], y: Callable[[str], alt.Y]
) -> list[alt.Chart]:
    """Return lines (dashed where they predict), observed points, and crosses (held out).

    `values` are the columns of the line, which the crosses share, and of the observed points.
    """
    of_line, of_points = values
    lines = inline(_joined(data))
    points = inline(data[data["role"] == "observed"]).assign(kind=kind)
    held = inline(data[data["role"] == "held out"]).assign(kind=HELD_OUT)
    kinds = [kind, HELD_OUT] if len(held) else [kind]
    shapes = alt.Scale(domain=kinds, range=theme.kind_shapes(kinds))
    shape = alt.Shape("kind:N", title=None, scale=shapes).legend(
        symbolFillColor=theme.NEUTRAL, symbolStrokeColor=theme.NEUTRAL
    )
    told = [str(name) for name in data.columns if name != "role"]
    line = alt.Chart(lines).mark_line(strokeWidth=1.8)
    point = alt.Chart(points).mark_point(size=64, strokeWidth=2, opacity=1)
    cross = alt.Chart(held).mark_point(size=90, strokeWidth=2, opacity=1)
    layers = [
        line.encode(
            y=y(f"{of_line}:Q"), strokeDash=line_dash(), tooltip=tooltip(lines, ["role", *told])
        ),
        point.encode(
            y=y(f"{of_points}:Q"),
            shape=shape,
            fill=batch_fill(data),
            fillOpacity=alt.condition("datum.flags", alt.value(0), alt.value(1)),
            tooltip=tooltip(points, ["kind", *told]),
        ),
        cross.encode(y=y(f"{of_line}:Q"), shape=shape, tooltip=tooltip(held, ["kind", *told])),
    ]
    shown = layers if len(held) else layers[:2]
    return [layer.encode(x=nodes_axis(), color=batch_colour(data)) for layer in shown]


def _interval(data: pd.DataFrame, y: Callable[[str], alt.Y]) -> alt.Chart:
    rows = inline(_joined(data)).dropna(subset=["low_s", "high_s"])
    area: alt.Chart = (
        alt.Chart(rows)
        .mark_area(opacity=0.12, clip=True)
        .encode(
            x=nodes_axis(), y=y("low_s:Q"), y2="high_s", color=batch_colour(data), detail="role:N"
        )
    )
    return area


def line_dash() -> alt.StrokeDash:
    """Return how a line tells, by `role`, where its law is fitted and where it predicts."""
    dashes = alt.Scale(domain=["fitted", "predicted"], range=[[1, 0], [5, 4]])
    return alt.StrokeDash("role:N", title=None, scale=dashes).legend(
        symbolType="stroke", symbolStrokeColor=theme.NEUTRAL
    )


def nodes_axis() -> alt.X:
    """Return the axis of node counts."""
    return (
        alt.X("nodes:Q", title="Nodes")
        .axis(tickMinStep=1, format="d")
        .scale(zero=False, nice=False, padding=12)
    )


def _joined(data: pd.DataFrame) -> pd.DataFrame:
    """Return the points of the lines; the predicted stretch begins where the fitted one ends."""
    fitted, predicted = (data[data["role"] == role] for role in ("fitted", "predicted"))
    ends = fitted.sort_values("nodes").groupby("batch_per_worker", as_index=False).last()
    ends = ends[ends["batch_per_worker"].isin(predicted["batch_per_worker"])]
    lines = pd.concat([fitted, predicted, ends.assign(role="predicted")])
    return lines.sort_values(_POINT, kind="stable")

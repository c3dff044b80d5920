"""Draw fitted formulas: their fit to the points, and what they predict for more nodes."""

from collections.abc import Callable

import altair as alt
import pandas as pd

from nodewise.predict import fit_queries
from nodewise.report.figure import Figure, View, inline
from nodewise.report.figures import _formula_findings, _rows, figure
from nodewise.report.figures._encodings import (
    by_batch,
    caution_key,
    dashed_by_role,
    hollow_if_flagged,
    kind_shape_with_legend,
    log_nodes_axis,
    tooltip,
)
from nodewise.report.figures._rows import CURVE
from nodewise.report.figures._words import values_in_words
from nodewise.results.queries import LAUNCHES, POINT

HELD_OUT = "predicted, held out"
_ALONG = "The line is the fitted formula, dashed where it predicts."
_AGAINST_ONE = "Throughput against the same strategy on one node, at the same batch per worker."
_OWN = "Speed-up against its own one node"
_FIT = View("Step time: the formula and the points", "fitted_s", "Step time (s)", "log")
_REACH = View("Speed-up on all numbers of nodes asked about", "speedup", _OWN, "log")
_ROOM = 1.4  # factor above and below the points at which intervals are cut off


@figure(
    "fit",
    tables="curves predictions trials",
    rows=lambda tables: fit_queries.fit_roles(_rows.predictions(tables)),
    axes=CURVE,
    plots="Step time: the formula and the points",
    reading=(
        f"{_ALONG} Shaded is its interval. A cross is what the formula predicts for a point that "
        "was held out of the fit."
    ),
    lines=["batch_per_worker"],
    order=82,
)
def step_time_fit(rows: pd.DataFrame) -> Figure:
    """Draw fitted and observed step times, and predictions for held-out points.

    The rows are one curve of `fit_queries.fit_roles`, with launches.
    """
    kind = rows["points_kind"].iloc[0]
    values = ["observed_s", "fitted_s", "low_s", "high_s", "error"]
    data = rows[["role", "scenario", *POINT, *values, *LAUNCHES]]
    drawn = data["observed_s"].where(data["role"] == "observed", data["fitted_s"])
    x = log_nodes_axis()
    layers = _layers(data, kind, x, _FIT.y, of_points="observed_s")
    band = ""
    if data["low_s"].notna().any():
        band = "Shaded: 90 % interval of the formula."
        ends = _lines(inline(data)).dropna(subset=["low_s", "high_s"])
        room = {"lower": drawn.min() / _ROOM, "upper": drawn.max() * _ROOM}
        ends = ends.assign(low_s=ends["low_s"].clip(**room), high_s=ends["high_s"].clip(**room))
        layers.insert(0, _band(ends, data, x, _FIT.y, ("low_s", "high_s")))
    return Figure(
        finding=_formula_findings.describe_fit(data),
        layers=layers,
        data=data,
        title=_FIT.heading,
        kinds=_kinds(data, kind),
        alt=f"Step time. {values_in_words(_points_and_ends(data.assign(s=drawn), kind), 's', 's')}",
        caption=(band + caution_key(data)).strip(),
    )


@figure(
    "reach",
    tables="curves predictions trials optima",
    rows=lambda tables: fit_queries.reach(_rows.predictions(tables), tables["optima"]),
    axes=CURVE,
    plots="Speed-up on all numbers of nodes asked about",
    reading=f"{_AGAINST_ONE} {_ALONG} Shaded is the interval of the formula.",
    lines=["batch_per_worker"],
    order=81,
)
def reach(rows: pd.DataFrame) -> Figure:
    """Draw the speed-up by the formula for all numbers of nodes asked about, with intervals.

    The rows are one curve of `fit_queries.reach`, with launches.
    """
    kind = rows["points_kind"].iloc[0]
    data = rows[["role", *POINT, "speedup", "low", "high", *LAUNCHES]]
    ends, x = _lines(inline(data)).dropna(subset=["low", "high"]), log_nodes_axis()
    band = _band(ends, data, x, _REACH.y, ("low", "high"))
    return Figure(
        finding=_formula_findings.describe_reach(data),
        layers=[band, *_layers(data, kind, x, _REACH.y)],
        data=data,
        title=_REACH.heading,
        kinds=_kinds(data, kind),
        alt=_speedups_in_words(data, kind),
        caption="Shaded: 90 % interval of the formula.",
    )


def _layers(
    data: pd.DataFrame,
    kind: str,
    x: alt.X,
    y: Callable[[str | None], alt.Y],
    *,
    of_points: str | None = None,
) -> list[alt.Chart]:
    """Return lines (dashed where they predict), observed points, and crosses for held-out points.

    Args:
        data: the rows, with their `role`.
        kind: the kind of the observed points.
        x: the horizontal axis.
        y: returns the vertical axis of a column, or with None that of the lines and crosses.
        of_points: the column of the observed points, if it is not that of the lines.
    """
    data = inline(data)
    lines = _lines(data)
    points = data[data["role"] == "observed"].assign(kind=kind)
    held = data[data["role"] == "held out"].assign(kind=HELD_OUT)
    shape = kind_shape_with_legend([kind, HELD_OUT] if len(held) else [kind])
    names = [str(name) for name in data.columns if name not in ("role", "cell_id")]
    colour, fill = by_batch(data)
    line = alt.Chart(lines).mark_line(strokeWidth=1.8)
    point = alt.Chart(points).mark_point(size=64, strokeWidth=2, opacity=1)
    cross = alt.Chart(held).mark_point(size=90, strokeWidth=2, opacity=1)
    layers = [
        line.encode(
            y=y(None), strokeDash=dashed_by_role(), tooltip=tooltip(lines, ["role", *names])
        ),
        point.encode(
            y=y(of_points),
            shape=shape,
            fill=fill,
            fillOpacity=hollow_if_flagged(),
            tooltip=tooltip(points, ["kind", *names]),
        ),
        cross.encode(y=y(None), shape=shape, tooltip=tooltip(held, ["kind", *names])),
    ]
    return [layer.encode(x=x, color=colour) for layer in layers[: 3 if len(held) else 2]]


def _band(
    ends: pd.DataFrame,
    data: pd.DataFrame,
    x: alt.X,
    y: Callable[[str | None], alt.Y],
    between: tuple[str, str],
) -> alt.Chart:
    """Return the intervals of lines as areas, `between` two columns of `ends`."""
    band: alt.Chart = (
        alt.Chart(ends)
        .mark_area(opacity=0.12)
        .encode(
            x=x,
            y=y(between[0]),
            y2=alt.Y2(between[1]),
            color=by_batch(data)[0],
            detail=alt.Detail("role:N"),
        )
    )
    return band


def _lines(data: pd.DataFrame) -> pd.DataFrame:
    """Return the points of the lines; the predicted part begins where the fitted part ends."""
    fitted, predicted = (data[data["role"] == role] for role in ("fitted", "predicted"))
    ends = fitted.sort_values("nodes").groupby("batch_per_worker", as_index=False).last()
    ends = ends[ends["batch_per_worker"].isin(predicted["batch_per_worker"])]
    lines = pd.concat([fitted, predicted, ends.assign(role="predicted")])
    return lines.sort_values(POINT, kind="stable")


def _kinds(data: pd.DataFrame, kind: str) -> list[str]:
    roles = set(data["role"].replace({"observed": kind, "held out": "predicted"}))
    return [label for label in (kind, "fitted", "predicted") if label in roles]


def _speedups_in_words(data: pd.DataFrame, kind: str) -> str:
    words = values_in_words(_points_and_ends(data, kind), "speedup", "×")
    return f"Speed-up against the same strategy on one node. {words}"


def _points_and_ends(data: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Return the rows to describe in words: observed, fitted, and predicted for the most nodes."""
    ends = (data["role"] != "predicted") | (data["nodes"] == data["nodes"].max())
    rows: pd.DataFrame = data[ends & (data["role"] != "held out")]
    return rows.assign(kind=rows["role"].replace("observed", kind))

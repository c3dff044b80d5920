"""Draw speed-up and efficiency by nodes, and speed-up by batch."""

from collections.abc import Callable
from typing import Any

import altair as alt
import pandas as pd

from nodewise.report import theme
from nodewise.report.figure import Figure, View, inline
from nodewise.report.figures import _findings, _rows, figure
from nodewise.report.figures._encodings import (
    by_batch,
    by_nodes,
    caution_key,
    hollow_if_flagged,
    kind_shape,
    kinds_of,
    nodes_axis,
    tooltip,
)
from nodewise.report.figures._rows import LINE
from nodewise.report.figures._words import values_in_words
from nodewise.results.queries import LAUNCHES, TIMED_STEP

_TABLES = "curves cells published published_runs"
_DECLARED: dict[str, Any] = {
    "tables": _TABLES,
    "rows": _rows.speedups,
    "axes": LINE,
    "lines": ["batch_per_worker"],
}
_SECTION = "Speed-up and efficiency"
_POINT = ["kind", "line", "batch_per_worker", "nodes"]
_ENDS = ["low", "high"]
_SPEEDUP = View("Speed-up by nodes", "speedup", "Speed-up against one node")
_BATCHES = View("Speed-up by batch", "speedup", "Speed-up against one node")
_EFFICIENCY = View("Efficiency by nodes", "efficiency", "Efficiency (speed-up ÷ nodes)")
_AGAINST_ONE = "Examples per second against one node at the same batch per worker."
_BARS = "Vertical bars are the intervals of points that count as evidence."
_INTERVALS = " Bars: 90 % intervals."
_IDEAL = "Dashed is ideal scaling: n nodes are n times as fast as one."


@figure(
    "speedup",
    plots="Speed-up by nodes",
    reading=f"{_AGAINST_ONE} {_IDEAL} Below one, one node is faster. {_BARS}",
    order=60,
    section=_SECTION,
    **_DECLARED,
)
def speedup(rows: pd.DataFrame) -> Figure:
    """Draw the throughput relative to one node, by nodes (`queries.speedups`)."""
    data = _with_ends(rows)[[*_POINT, "speedup", *_ENDS, "examples_per_s", *TIMED_STEP, *LAUNCHES]]
    ideal = _ideal_speedup(data)
    guide = _guide(ideal).encode(y=_SPEEDUP.y(), detail=alt.Detail("batch_per_worker:O"))
    x = nodes_axis(data["nodes"], every=True)
    return Figure(
        finding=_findings.describe_speedups(rows),
        layers=[guide.encode(x=x), *_lines(data, x, _SPEEDUP.y, by_batch(data))],
        data=data,
        title=_SPEEDUP.heading,
        kinds=kinds_of(data),
        alt=f"Throughput against one node. {values_in_words(data, 'speedup', '×')}",
        caption=(
            f"Dashed: ideal scaling. Below 1, one node is faster.{_bars_key(data)}"
            f"{caution_key(data)}"
        ),
    )


@figure(
    "efficiency",
    plots="Efficiency by nodes",
    reading=f"The share of the ideal speed-up that was reached: speed-up divided by nodes. {_BARS}",
    order=61,
    section=_SECTION,
    **_DECLARED,
)
def efficiency(rows: pd.DataFrame) -> Figure:
    """Draw the efficiency, speed-up ÷ nodes, by nodes (`queries.speedups`)."""
    data = _with_ends(rows, rows["nodes"])
    data = data[[*_POINT, "efficiency", *_ENDS, *TIMED_STEP, *LAUNCHES]]
    ideal = pd.DataFrame({"nodes": [1, int(data["nodes"].max())], "efficiency": [1, 1]})
    x = nodes_axis(data["nodes"], every=True)
    return Figure(
        finding=_findings.describe_efficiencies(rows),
        layers=[
            _guide(ideal).encode(x=x, y=_EFFICIENCY.y()),
            *_lines(data, x, _EFFICIENCY.y, by_batch(data)),
        ],
        data=data,
        title=_EFFICIENCY.heading,
        kinds=kinds_of(data),
        alt=f"Efficiency. {values_in_words(data, 'efficiency', 'share')}",
        caption=f"Dashed: ideal scaling.{_bars_key(data)}{caution_key(data)}",
    )


@figure(
    "batches",
    tables=_TABLES,
    rows=lambda tables: _rows.speedups(tables).query("nodes > 1"),
    axes=LINE,
    plots="Speed-up by batch",
    reading=f"{_AGAINST_ONE} A line for each number of nodes. {_BARS}",
    lines=["nodes"],
    order=62,
)
def speedup_by_batch(rows: pd.DataFrame) -> Figure | None:
    """Draw the throughput relative to one node by batch, a line per number of nodes above one.

    None is returned if there is only one batch.
    """
    if rows["batch_per_worker"].nunique() < 2:
        return None
    data = _with_ends(rows)[[*_POINT, "speedup", *_ENDS, "examples_per_s", *LAUNCHES]]
    batches = sorted(map(int, data["batch_per_worker"].unique()))
    x = alt.X("batch_per_worker:Q", title="Batch per worker, log scale")
    x = x.scale(type="log", base=2, nice=False, padding=12).axis(values=batches, format="d")
    even = alt.Chart(inline(data[["batch_per_worker", "nodes"]].assign(speedup=1)))
    rule = even.mark_rule(strokeDash=[3, 4]).encode(y=_BATCHES.y())
    return Figure(
        finding=_findings.describe_batches(rows),
        layers=[rule, *_lines(data, x, _BATCHES.y, by_nodes(data))],
        data=data,
        title=_BATCHES.heading,
        kinds=kinds_of(data),
        alt=f"Throughput against one node. {values_in_words(data, 'speedup', '×')}",
        caption=f"Below the dashed line, one node is faster.{_bars_key(data)}{caution_key(data)}",
    )


def _ideal_speedup(data: pd.DataFrame) -> pd.DataFrame:
    """Return both ends of each batch's line of ideal scaling: n times one node on n nodes."""
    one = (data["examples_per_s"] / data["speedup"]).groupby(data["batch_per_worker"]).median()
    ends = pd.DataFrame({"nodes": [1, int(data["nodes"].max())]})
    lines = one.rename("one").reset_index().merge(ends, "cross")
    lines = lines.assign(speedup=lines["nodes"], examples_per_s=lines["nodes"] * lines["one"])
    return lines.drop(columns="one")


def _guide(ideal: pd.DataFrame) -> alt.Chart:
    guide: alt.Chart = alt.Chart(inline(ideal)).mark_line(
        strokeDash=[3, 4], strokeWidth=1.5, color=theme.NEUTRAL
    )
    return guide


def _with_ends(rows: pd.DataFrame, nodes: "pd.Series[int] | int" = 1) -> pd.DataFrame:
    """Add `low` and `high`, the interval of the speed-up divided by `nodes`.

    They are NaN for points that do not count as evidence.
    """
    return rows.assign(low=rows["certain_low"] / nodes, high=rows["certain_high"] / nodes)


def _bars_key(data: pd.DataFrame) -> str:
    return _INTERVALS if data["low"].notna().any() else ""


def _lines(
    data: pd.DataFrame,
    x: alt.X,
    y: Callable[[str | None], alt.Y],
    colours: tuple[alt.Color, alt.Fill],
) -> list[alt.Chart]:
    """Return one line per colour with its points, and with intervals if there are any."""
    colour, fill = colours
    base = alt.Chart(inline(data)).encode(x=x, color=colour)
    interval = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=2)
    bars = [interval.encode(y=y("low"), y2=alt.Y2("high"))] if data["low"].notna().any() else []
    return [
        base.mark_line(strokeWidth=1.8, opacity=0.75).encode(y=y(None)),
        *bars,
        base.mark_point(size=64, strokeWidth=2, opacity=1).encode(
            y=y(None),
            fill=fill,
            shape=kind_shape(data),
            fillOpacity=hollow_if_flagged(),
            tooltip=tooltip(data, [str(name) for name in data.columns if name != "cell_id"]),
        ),
    ]

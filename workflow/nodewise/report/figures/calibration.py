"""Draw the figure of a calibration: the time of an all-reduce by payload and nodes."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from nodewise.core.units import counted, write_number
from nodewise.predict.calibration import examine
from nodewise.report import theme
from nodewise.report.figure import Figure, View, inline
from nodewise.report.figures import ALL_REDUCES, _findings, figure
from nodewise.report.figures._encodings import (
    by_value,
    kind_shape_with_legend,
    legend_columns,
    nodes_axis,
    tooltip,
)
from nodewise.results.calibration import COLLECTIVES, Calibration

_VIEW = View(
    "Time of an all-reduce by payload and nodes",
    "seconds",
    "Time of one all-reduce (s)",
    "log",
)
_NAMED = ["payload_bytes", "nodes", "seconds", "low", "high", "launches"]


def all_reduce_times(calibrations: Sequence[Calibration]) -> pd.DataFrame:
    """Return the times of all-reduces in calibrations, as measured and by the formula.

    The columns `study`, `machine` and `collective` say where a row comes from; `observed_kind` is
    the kind of the measured times.
    """
    parts = [
        all_reduces.times.assign(
            study=one.study,
            machine=one.provenance.cpu,
            collective=collective,
            observed_kind=one.kind,
        )
        for one in calibrations
        if one.status == "ok"
        for collective, all_reduces in examine(one).all_reduces.items()
    ]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


@figure(
    "all-reduce",
    tables=ALL_REDUCES,
    rows=lambda tables: tables[ALL_REDUCES],
    axes=("study", "machine", "collective"),
    plots="Time of an all-reduce",
    reading=(
        "In the node's own time. Points are the median over launches with its interval. Lines are "
        "the formula fitted to all points."
    ),
    lines=["payload_bytes"],
    order=100,
)
def all_reduce(rows: pd.DataFrame) -> Figure:
    """Draw the times of all-reduces and the formula that is fitted to them.

    The rows are one collective of `all_reduce_times`.
    """
    kind = str(rows["observed_kind"].iloc[0])
    title = f"Time of an all-reduce {COLLECTIVES[rows['collective'].iloc[0]]}"
    data = rows[["role", *_NAMED]]
    observed = data[data["role"] == "observed"]
    return Figure(
        finding=_findings.describe_all_reduces(observed),
        layers=_layers(data, kind),
        data=data,
        title=title,
        kinds=[kind, "fitted"],
        alt=f"{title}. {kind.capitalize()}: {_in_words(observed)}.",
        caption="Bars: 90 % interval of the median over launches.",
    )


def _layers(data: pd.DataFrame, kind: str) -> list[alt.Chart]:
    """Return lines over the nodes, intervals and points."""
    payloads = [write_number(size, "B") for size in sorted(data["payload_bytes"].unique())]
    data = inline(data.assign(payload=[write_number(size, "B") for size in data["payload_bytes"]]))
    lines = data[data["role"] == "fitted"]
    points = data[data["role"] == "observed"].assign(kind=kind)
    legend = alt.Legend(symbolOpacity=1, columns=legend_columns(3, 5, 6))
    colours = theme.ramp(len(payloads))
    colour, fill = by_value("payload:N", "Payload", payloads, colours, legend)
    y = _VIEW.y().axis(tickCount=6)
    shape = kind_shape_with_legend([kind])
    line = alt.Chart(lines).mark_line(strokeWidth=1.6, opacity=0.75)
    bar = alt.Chart(points.dropna(subset="low")).mark_rule(strokeWidth=2)
    point = alt.Chart(points).mark_point(size=50, strokeWidth=1.5, opacity=1)
    layers = [
        line.encode(y=y, tooltip=tooltip(lines, ["role", *_NAMED])),
        bar.encode(y=_VIEW.y("low"), y2=alt.Y2("high")),
        point.encode(
            y=y,
            shape=shape,
            fill=fill,
            tooltip=tooltip(points, ["kind", *_NAMED]),
        ),
    ]
    return [layer.encode(x=nodes_axis(data["nodes"]), color=colour) for layer in layers]


def _in_words(rows: pd.DataFrame) -> str:
    """List the times by number of nodes, at the smallest and the largest payload."""
    words = []
    for payload in dict.fromkeys((rows["payload_bytes"].min(), rows["payload_bytes"].max())):
        points = rows[rows["payload_bytes"] == payload].sort_values("nodes")
        times = ", ".join(
            f"{write_number(seconds, 's')} on {counted(nodes, 'node')}"
            for nodes, seconds in zip(points["nodes"], points["seconds"], strict=True)
        )
        words.append(f"{write_number(payload, 'B')}, {times}")
    return "; ".join(words)

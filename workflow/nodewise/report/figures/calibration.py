"""The figure of a calibration: the time of an all-reduce by payload and nodes."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from nodewise.core.units import counted, write_number
from nodewise.predict.calibration import examine
from nodewise.report import theme
from nodewise.report.figure import Figure, View, few, inline, shapes_of, tooltip
from nodewise.report.figures import ALL_REDUCES, figure
from nodewise.report.figures.fits import HELD_OUT, line_dash, nodes_axis
from nodewise.results.calibration import COLLECTIVES, Calibration

_VIEW = View(
    "absolute",
    "Time of an all-reduce by payload and nodes",
    "seconds",
    "Time of one all-reduce (s)",
    "log",
)
_TOLD = ["payload_bytes", "nodes", "seconds", "low", "high", "wall_s", "launches"]


_AXES = ("study", "machine", "collective")


def all_reduce_times(calibrations: Sequence[Calibration]) -> pd.DataFrame:
    """Return the all-reduces of calibrations, and what the formula gave for them.

    Each row says what it is of (`study`, `machine`, `collective`) and its kind (`observed_kind`).
    """
    found = [
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
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()


@figure(
    "all-reduce",
    tables=ALL_REDUCES,
    rows=lambda tables: tables[ALL_REDUCES],
    axes=_AXES,
    order=100,
)
def all_reduce(rows: pd.DataFrame, of: dict[str, str]) -> Figure:
    """Draw the times of all-reduces, the formula fitted to them, and what it predicted.

    Args:
        rows: what `all_reduce_times` returns, of one collective.
        of: the study that was calibrated for, the machine, and the collective.
    """
    kind = str(rows["observed_kind"].iloc[0])
    title = f"Time of an all-reduce {COLLECTIVES[rows['collective'].iloc[0]]}"
    data = rows[["role", *_TOLD]]
    observed, held = data[data["role"] == "observed"], data[data["role"] == "held out"]
    kinds = [kind, "fitted", *(["predicted"] if len(held) else [])]
    crosses = (
        " Dashed lines and crosses: the same formula, fitted to fewer nodes than it predicts."
        if len(held)
        else ""
    )
    return Figure(
        figure="all-reduce",
        of=of,
        layers=_layers(data, kind),
        data=data,
        title=title,
        kinds=kinds,
        alt=f"{title}. {kind.capitalize()}: {_in_words(observed)}."
        + (f" Predicted: {_in_words(held)}." if len(held) else ""),
        caption=(
            "In the node's own time; the data hold the wall time too. Points: median over launches "
            "with its 90 % interval. Solid lines: the formula fitted to all points." + crosses
        ),
        views=(_VIEW,),
    )


def _layers(data: pd.DataFrame, kind: str) -> list[alt.Chart]:
    """Return lines over the nodes (dashed where they predict), points, and crosses (held out)."""
    payloads = [write_number(size, "B") for size in sorted(data["payload_bytes"].unique())]
    data = inline(data.assign(payload=[write_number(size, "B") for size in data["payload_bytes"]]))
    lines = data[data["role"].isin(["fitted", "predicted"])]
    points = data[data["role"] == "observed"].assign(kind=kind)
    crosses = data[data["role"] == "held out"].assign(kind=HELD_OUT)
    scale = alt.Scale(domain=payloads, range=theme.ramp(len(payloads)))
    legend = alt.Legend(symbolOpacity=1, columns=few(3, 5, 6))
    y = _VIEW.y().axis(tickCount=6)
    kinds = [kind, HELD_OUT] if len(crosses) else [kind]
    shape = alt.Shape("kind:N", title=None, scale=shapes_of(kinds)).legend(
        symbolFillColor=theme.NEUTRAL, symbolStrokeColor=theme.NEUTRAL
    )
    faint = alt.OpacityValue(1, condition={"test": "datum.role === 'fitted'", "value": 0.5})
    line = alt.Chart(lines).mark_line(strokeWidth=1.6)
    bar = alt.Chart(points.dropna(subset="low")).mark_rule(strokeWidth=2)
    point = alt.Chart(points).mark_point(size=50, strokeWidth=1.5, opacity=1)
    cross = alt.Chart(crosses).mark_point(size=180, strokeWidth=2, opacity=1)
    layers = [
        line.encode(
            y=y, strokeDash=line_dash(), opacity=faint, tooltip=tooltip(lines, ["role", *_TOLD])
        ),
        bar.encode(y=_VIEW.y("low"), y2=alt.Y2("high")),
        point.encode(
            y=y,
            shape=shape,
            fill=alt.Fill("payload:N", title="Payload", scale=scale, legend=legend),
            tooltip=tooltip(points, ["kind", *_TOLD]),
        ),
        cross.encode(y=y, shape=shape, tooltip=tooltip(crosses, ["kind", *_TOLD])),
    ]
    shown = layers if len(crosses) else layers[:3]
    colour = alt.Color("payload:N", title="Payload", scale=scale, legend=legend)
    return [layer.encode(x=nodes_axis(data["nodes"]), color=colour) for layer in shown]


def _in_words(rows: pd.DataFrame) -> str:
    """Say the times at the smallest and the largest payload, over the nodes."""
    said = []
    for payload in dict.fromkeys((rows["payload_bytes"].min(), rows["payload_bytes"].max())):
        points = rows[rows["payload_bytes"] == payload].sort_values("nodes")
        times = ", ".join(
            f"{write_number(seconds, 's')} on {counted(nodes, 'node')}"
            for nodes, seconds in zip(points["nodes"], points["seconds"], strict=True)
        )
        said.append(f"{write_number(payload, 'B')}, {times}")
    return "; ".join(said)

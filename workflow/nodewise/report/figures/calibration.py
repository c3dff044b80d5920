"""The figure of a calibration: the time of an all-reduce by payload and nodes."""

import altair as alt
import pandas as pd

from nodewise.core.units import counted, write_number
from nodewise.predict.calibration import examine
from nodewise.report import theme
from nodewise.report.figure import Figure, View, few, inline, shapes_of, tooltip
from nodewise.report.figures.fits import HELD_OUT, line_dash, nodes_axis
from nodewise.results.calibration import COLLECTIVES, Calibration, Collective

_VIEW = View(
    "absolute",
    "Time of an all-reduce by payload and nodes",
    "seconds",
    "Time of one all-reduce (s)",
    "log",
)
_TOLD = ["payload_bytes", "nodes", "seconds", "low", "high", "wall_s", "launches"]


def figures(calibration: Calibration) -> list[Figure]:
    """Return the figures of a calibration: one for each collective whose all-reduces it has."""
    if calibration.status != "ok":
        return []
    of = {"study": calibration.study, "machine": calibration.provenance.cpu}
    return [
        all_reduce(found.times, of, collective, calibration.kind)
        for collective, found in examine(calibration).all_reduces.items()
    ]


def all_reduce(rows: pd.DataFrame, of: dict[str, str], collective: Collective, kind: str) -> Figure:
    """Draw the times of all-reduces, the formula fitted to them, and what it predicted.

    Args:
        rows: `times` of `overhead.calibration.AllReduces`.
        of: the study that was calibrated for, and the machine.
        collective: whose all-reduces they are.
        kind: the kind of the observed times.
    """
    title = f"Time of an all-reduce {COLLECTIVES[collective]}"
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
        of=of | {"collective": collective},
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

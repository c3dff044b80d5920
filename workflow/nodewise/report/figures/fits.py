"""Figures of the overhead formulas: their fit to the points, and what they say of more nodes."""

from collections.abc import Callable, Collection

import altair as alt
import pandas as pd

from nodewise.core.units import write_number
from nodewise.predict import fit_queries
from nodewise.predict.queries import LAUNCHES, POINT
from nodewise.report import theme
from nodewise.report.figure import (
    PHONE,
    Figure,
    View,
    few,
    hollow,
    in_words,
    inline,
    of_lines,
    shapes_of,
    tooltip,
    whole,
)
from nodewise.report.figures import _rows, figure
from nodewise.report.figures._rows import CURVE
from nodewise.report.figures.scaling import HOLLOW, batch_colour, batch_fill
from nodewise.results.importers import published

_ALONG = "Solid line: the fitted formula; dashed: its predictions."
HELD_OUT = "predicted, held out"
_FIT = View("absolute", "Step time: the formula and the points", "fitted_s", "Step time (s)", "log")
_OUTLOOK = (
    View(
        "speedup",
        "How much faster are more nodes?",
        "speedup",
        "Speed-up against its own one node",
    ),
    View(
        "absolute",
        "How many examples per second do more nodes train?",
        "examples_per_s",
        "Examples per second",
    ),
)
_REACH = View(
    "speedup",
    "Speed-up as far as the formula is asked",
    "speedup",
    "Speed-up against its own one node",
    "log",
)
_RATES = (
    View("speedup", "Efficiency over slower and faster links", "efficiency", "Efficiency"),
    View("absolute", "Step time over slower and faster links", "fitted_s", "Step time (s)", "log"),
)
_SAVED = "Training time saved by more nodes, mean over the models"
_FORESEEN = "foreseen by the study"
_OWN = "Speed-up against the same strategy on one node"
_ROOM = 1.4  # above and below the points; an interval may reach further out


@figure(
    "fit",
    tables="curves predictions trials",
    rows=lambda tables: fit_queries.fit_roles(fit_queries.near(_rows.predictions(tables))),
    axes=CURVE,
    order=82,
)
def overhead_fit(rows: pd.DataFrame, of: dict[str, str]) -> Figure:
    """Draw fitted step times, the observed ones, and the held-out predictions.

    Args:
        rows: one curve of `fit_queries.fit_roles`, with launches.
        of: the axes that the rows share.
    """
    kind = rows["points_kind"].iloc[0]
    values = ["observed_s", "fitted_s", "low_s", "high_s", "error"]
    data = rows[["role", "scenario", *POINT, *values, *LAUNCHES]]
    drawn = data["observed_s"].where(data["role"] == "observed", data["fitted_s"])
    kinds = _kinds(data, kind)
    shown = inline(data)
    lines = _joined(shown)
    layers = _layers(shown, lines, kind, ("fitted_s", "observed_s"), _FIT.y)
    if data["low_s"].notna().any():
        layers.insert(
            0, _interval(lines, batch_colour(data), drawn.min() / _ROOM, drawn.max() * _ROOM)
        )
    crosses = " A cross is what the formula predicts for a point that was held out."
    return Figure(
        figure="fit",
        of=of,
        layers=layers,
        data=data,
        title=_FIT.heading,
        kinds=kinds,
        alt=f"Step time. {in_words(_told(data.assign(s=drawn), kind), 's', 's')}",
        caption=f"{_ALONG} Shaded: its 90 % interval. {HOLLOW}"
        + (crosses if (data["role"] == "held out").any() else ""),
        views=(_FIT,),
    )


@figure(
    "outlook",
    tables="curves predictions trials",
    rows=lambda tables: fit_queries.speedup_roles(fit_queries.near(_rows.predictions(tables))),
    axes=CURVE,
    order=80,
)
def outlook(rows: pd.DataFrame, of: dict[str, str]) -> Figure:
    """Draw the speed-up against one node, by the formula and of the points.

    Args:
        rows: one curve of `fit_queries.speedup_roles`, with launches.
        of: the axes that the rows share.
    """
    kind = rows["points_kind"].iloc[0]
    data = rows[["role", *POINT, "speedup", "examples_per_s", *LAUNCHES]]
    view = _OUTLOOK[0]
    alone = data[(data["nodes"] == 1) & (data["role"] != "observed")]
    even = alt.Chart(inline(alone[[*POINT, "speedup", "examples_per_s"]]))
    rule = even.mark_rule(strokeDash=[3, 4]).encode(y=view.y())
    shown = inline(data)
    layers = [rule, *_layers(shown, _joined(shown), kind, ("speedup", "speedup"), view.y)]
    return Figure(
        figure="outlook",
        of=of,
        layers=layers,
        data=data,
        title=view.heading,
        kinds=_kinds(data, kind),
        alt=f"{_OWN}. {in_words(_told(data, kind), 'speedup', '×')}",
        caption=(
            "Throughput against the same strategy on one node, at the same batch per worker. Below "
            f"the dashed rule, one node is faster. {_ALONG} {HOLLOW}"
        ),
        views=_OUTLOOK,
    )


@figure(
    "reach",
    tables="curves predictions trials optima",
    rows=lambda tables: fit_queries.reach(_rows.predictions(tables), tables["optima"]),
    axes=CURVE,
    order=81,
)
def reach(rows: pd.DataFrame, of: dict[str, str]) -> Figure:
    """Draw the speed-up up to the most nodes that the formula was asked about, with intervals.

    Args:
        rows: one curve of `fit_queries.reach`, with launches.
        of: the axes that the rows share.
    """
    kind = rows["points_kind"].iloc[0]
    data = rows[["role", *POINT, "speedup", "low", "high", *LAUNCHES]]
    shown = inline(data)
    lines = _joined(shown)
    ends = alt.Chart(lines.dropna(subset=["low", "high"]))
    band = ends.mark_area(opacity=0.12).encode(
        y=_REACH.y("low"),
        y2=alt.Y2("high"),
        x=log_nodes_axis(),
        detail=alt.Detail("role:N"),
        color=batch_colour(data),
    )
    layers = _layers(shown, lines, kind, ("speedup", "speedup"), _REACH.y, x=log_nodes_axis())
    return Figure(
        figure="reach",
        of=of,
        layers=[band, *layers],
        data=data,
        title=_REACH.heading,
        kinds=_kinds(data, kind),
        alt=f"{_OWN}. {in_words(_told(data, kind), 'speedup', '×')}",
        caption=(
            "Throughput against the same strategy on one node, at the same batch per worker. "
            "Shaded: the 90 % interval of the formula. Where the line is dashed, it leaves the "
            "measured numbers of nodes: a prediction."
        ),
        views=(_REACH,),
    )


@figure(
    "rates",
    tables="curves predictions rates",
    rows=_rows.link_rates,
    axes=CURVE,
    order=83,
)
def link_rates(rows: pd.DataFrame, of: dict[str, str]) -> Figure:
    """Draw efficiency by the rate of the link, one line per number of nodes.

    Args:
        rows: what `fit_queries.link_rates` returns, of one line.
        of: the axes that the rows share.
    """
    kind = rows["points_kind"].iloc[0]
    view = _RATES[0]
    values = ["efficiency", "efficiency_low", "efficiency_high", "fitted_s", "low_s", "high_s"]
    data = rows[["role", *POINT, "rate_bit_s", *values, "flags", "cell_id"]]
    batch = data["batch_per_worker"].iloc[0]
    lines, seen = _stretches(data), data[data["role"] == "observed"].assign(kind=kind)
    # of several numbers of nodes, intervals that lie on each other could not be read
    shaded = int((seen if len(seen) else lines)["nodes"].max())
    return Figure(
        figure="rates",
        of=of,
        layers=_rate_layers(lines, seen, shaded),
        data=data,
        title=view.heading,
        kinds=[kind, "fitted", "predicted"],
        alt=f"Efficiency at batch {batch} by the rate of the link. {_rates_in_words(data)}",
        caption=(
            f"At {batch} examples per worker, with the fitted bandwidth scaled to each rate, which "
            "is in the node's own time. "
            "Points are measured over links of that rate. Where a line is dashed, it leaves the "
            "rates or the numbers of nodes that were measured. Shaded: 90 % interval on "
            f"{shaded} nodes.{_rates_missed(data)} {HOLLOW}"
        ),
        views=_RATES,
    )


def _rate_layers(lines: pd.DataFrame, seen: pd.DataFrame, shaded: int) -> list[alt.Chart]:
    """Return an interval, lines over the rates (dashed where nothing was measured), and points."""
    view = _RATES[0]
    counts = sorted(map(int, pd.concat([lines["nodes"], seen["nodes"]]).unique()))
    colours = alt.Scale(domain=counts, range=theme.node_colours(counts))
    legend_of_nodes = alt.Legend(symbolOpacity=1)
    colour = alt.Color("nodes:O", title="Nodes", scale=colours, legend=legend_of_nodes)
    x = alt.X("rate_bit_s:Q", title="Rate of the link in the node's own time, bit/s, log scale")
    x = x.scale(type="log", nice=False, padding=12).axis(format="~s", tickCount=4, grid=False)
    legend = of_lines(columns=few(1, 1, 2))
    legend.labelExpr = f"'formula, ' + datum.label + ({PHONE} ? '' : ' what was measured')"
    dash = alt.StrokeDash("role:N", title=None, legend=legend)
    dash = dash.scale(domain=["within", "beyond"], range=[[1, 0], [5, 4]])
    told = ["nodes", "rate_bit_s", "efficiency", "efficiency_low", "efficiency_high", "fitted_s"]
    line = alt.Chart(inline(lines)).mark_line(strokeWidth=1.8)
    band = alt.Chart(inline(lines[lines["nodes"] == shaded])).mark_area(opacity=0.16)
    point = alt.Chart(inline(seen)).mark_point(size=64, strokeWidth=2, opacity=1)
    at = {"x": x, "color": colour}
    inside = {
        "fill": alt.Fill("nodes:O", title="Nodes", scale=colours, legend=legend_of_nodes),
        "fillOpacity": alt.FillOpacityValue(1, condition={"test": "datum.flags", "value": 0}),
    }
    shape = alt.Shape("kind:N", title=None, scale=shapes_of(sorted(seen["kind"].unique())))
    shape = shape.legend(symbolFillColor=theme.NEUTRAL, symbolStrokeColor=theme.NEUTRAL)
    return [
        band.encode(
            y=view.y("efficiency_low"),
            y2=alt.Y2("efficiency_high"),
            detail=alt.Detail(["stretch:N"]),
            **at,
        ),
        line.encode(
            y=view.y(),
            strokeDash=dash,
            detail=alt.Detail(["stretch:N"]),
            tooltip=tooltip(lines, told),
            **at,
        ),
        point.encode(
            y=view.y(),
            shape=shape,
            tooltip=tooltip(seen, ["kind", *told, "flags"]),
            **at,
            **inside,
        ),
    ]


@figure(
    "saved",
    tables="savings",
    rows=lambda tables: fit_queries.mean_savings(tables["savings"]),
    axes=["study"],
    order=91,
)
def savings(rows: pd.DataFrame, of: dict[str, str]) -> Figure:
    """Draw the share of the training time that more nodes save, beside what a study claimed.

    Args:
        rows: one study of `fit_queries.mean_savings`.
        of: the axes that the rows share.
    """
    law = rows.assign(role=rows["kind"])
    seen = rows.dropna(subset="observed").assign(role="observed", saved=rows["observed"])
    claims = published.read("ntua_figure28")  # `nodes`, `time_saved`: as the study foresaw them
    said = claims.dropna(subset="time_saved").rename(columns={"time_saved": "saved"})
    points = pd.concat([seen, said.assign(role=_FORESEEN)])[["role", "nodes", "saved"]]
    data = pd.concat([law, points], ignore_index=True)
    data = data[["role", "nodes", "saved", "low", "high"]].assign(cell_id="")
    return Figure(
        figure="saved",
        of=of,
        layers=_savings_layers(law, points),
        data=data,
        title=_SAVED,
        kinds=["published", "fitted", "predicted"],
        alt=f"{_SAVED}. {_saved_in_words(data)}",
        caption=(
            "Each model at the batch at which it saved most. Dotted: what nodes that need not "
            "communicate would save. Solid: the formulas where they were fitted; dashed: where "
            "they predict. Shaded: 90 % interval of the mean."
        ),
    )


def _savings_layers(law: pd.DataFrame, points: pd.DataFrame) -> list[alt.Chart]:
    """Return what nodes without communication would save, the formula, and points."""
    y = alt.Y("saved:Q", title="Share of the time on one node").axis(format=".0%")
    lines = _joined(law.assign(batch_per_worker=0))[["role", "nodes", "saved", "low", "high"]]
    ideal = pd.DataFrame({"nodes": law["nodes"], "saved": 1 - 1 / law["nodes"]})
    kinds = ["observed", _FORESEEN]
    shape = alt.Shape("role:N", title=None).scale(domain=kinds, range=["diamond", "circle"])
    shape = shape.legend(columns=few(1, 2, 2))
    told = ["role", "nodes", "saved"]
    colour = theme.KIND_COLOURS
    at = {"x": nodes_axis(law["nodes"])}
    return [
        alt.Chart(inline(ideal))
        .mark_line(strokeDash=[2, 3], strokeWidth=1.2, color=theme.NEUTRAL)
        .encode(y=y, **at),
        alt.Chart(inline(lines))
        .mark_area(opacity=0.14, color=colour["predicted"])
        .encode(y=alt.Y("low:Q"), y2=alt.Y2("high"), detail=alt.Detail("role:N"), **at),
        alt.Chart(inline(lines))
        .mark_line(strokeWidth=1.8, color=colour["predicted"])
        .encode(
            y=y,
            strokeDash=line_dash(),
            tooltip=tooltip(lines, [*told, "low", "high"]),
            **at,
        ),
        alt.Chart(inline(points))
        .mark_point(size=80, strokeWidth=2, opacity=1, color=colour["published"])
        .encode(y=y, shape=shape, tooltip=tooltip(points, told), **at),
    ]


def _stretches(data: pd.DataFrame) -> pd.DataFrame:
    """Return the points of the lines by rate; a dashed stretch begins where the solid one ends."""
    parts = []
    for _, of in data[data["role"] != "observed"].groupby("nodes"):
        line = of.sort_values("rate_bit_s").assign(stretch="all")
        inside = line.loc[line["role"] == "within", "rate_bit_s"]
        if inside.empty:
            parts.append(line)
            continue
        below, above = line["rate_bit_s"] <= inside.min(), line["rate_bit_s"] >= inside.max()
        parts.append(line[below].assign(role="beyond", stretch="below"))
        parts.append(line[line["role"] == "within"].assign(stretch="within"))
        parts.append(line[above].assign(role="beyond", stretch="above"))
    return pd.concat(parts, ignore_index=True)


def _rates_in_words(data: pd.DataFrame) -> str:
    """Say the efficiencies by the formula at the slowest and at the fastest link."""
    law = data[data["role"] != "observed"].sort_values("rate_bit_s")
    said = []
    for nodes, line in law.groupby("nodes"):
        ends = [
            f"{write_number(row['efficiency'], 'share')} at "
            f"{write_number(row['rate_bit_s'], 'bit/s')}"
            for _, row in line.iloc[[0, -1]].iterrows()
        ]
        said.append(f"{nodes} nodes, {' and '.join(ends)}")
    return f"Predicted: {'; '.join(said)}."


def _rates_missed(data: pd.DataFrame) -> str:
    """Say how far the efficiencies that were measured are from the formula at their rates."""
    at = ["nodes", "rate_bit_s"]
    law = data[data["role"] != "observed"].drop_duplicates(at)
    seen = data.loc[data["role"] == "observed", [*at, "efficiency"]]
    both = seen.merge(law, "inner", at, suffixes=("_seen", "")).dropna(subset="efficiency_seen")
    if both.empty:
        return ""
    off = (both["efficiency_seen"] / both["efficiency"] - 1).sort_values()
    inside = both["efficiency_seen"].between(both["efficiency_low"], both["efficiency_high"]).sum()
    ends = dict.fromkeys(f"{end:+.0%}".replace("%", " %") for end in (off.iloc[0], off.iloc[-1]))
    return (
        " The formula is fitted to the points of one link: the measured efficiencies differ from "
        f"it by {' to '.join(ends)}; {inside} of {len(both)} are in the interval."
    )


def _saved_in_words(data: pd.DataFrame) -> str:
    said = []
    for role, rows in data.groupby("role", sort=False):
        values = ", ".join(
            f"{write_number(saved, 'share')} on {nodes}"
            for nodes, saved in zip(rows["nodes"], rows["saved"], strict=True)
        )
        said.append(f"{str(role).capitalize()}: {values} nodes.")
    return " ".join(said)


def _told(data: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Return the rows to say in words: observed, fitted, and predicted at the end of the line."""
    ends = (data["role"] != "predicted") | (data["nodes"] == data["nodes"].max())
    rows: pd.DataFrame = data[ends & (data["role"] != "held out")]
    return rows.assign(kind=rows["role"].replace("observed", kind))


def _kinds(data: pd.DataFrame, kind: str) -> list[str]:
    told = data["role"].replace({"observed": kind, "held out": "predicted"})
    return [label for label in (kind, "fitted", "predicted") if (told == label).any()]


def _layers(
    data: pd.DataFrame,
    lines: pd.DataFrame,
    kind: str,
    values: tuple[str, str],
    y: Callable[[str], alt.Y],
    *,
    x: alt.X | None = None,
) -> list[alt.Chart]:
    """Return lines (dashed where they predict), observed points, and crosses (held out).

    `data` are `inline`, and `lines` what `_joined` returns of them. `values` are the columns of the
    line, which the crosses share, and of the observed points.
    """
    x = x or nodes_axis(data["nodes"])
    of_line, of_points = values
    points = data[data["role"] == "observed"].assign(kind=kind)
    held = data[data["role"] == "held out"].assign(kind=HELD_OUT)
    kinds = [kind, HELD_OUT] if len(held) else [kind]
    shape = alt.Shape(
        "kind:N",
        title=None,
        scale=shapes_of(kinds),
        legend={"symbolFillColor": theme.NEUTRAL, "symbolStrokeColor": theme.NEUTRAL},
    )
    told = [str(name) for name in data.columns if name not in ("role", "cell_id")]
    line = alt.Chart(lines).mark_line(strokeWidth=1.8)
    point = alt.Chart(points).mark_point(size=64, strokeWidth=2, opacity=1)
    cross = alt.Chart(held).mark_point(size=90, strokeWidth=2, opacity=1)
    layers = [
        line.encode(y=y(of_line), strokeDash=line_dash(), tooltip=tooltip(lines, ["role", *told])),
        point.encode(
            y=y(of_points),
            shape=shape,
            fill=batch_fill(data),
            fillOpacity=hollow(),
            tooltip=tooltip(points, ["kind", *told]),
        ),
        cross.encode(y=y(of_line), shape=shape, tooltip=tooltip(held, ["kind", *told])),
    ]
    shown = layers if len(held) else layers[:2]
    colour = batch_colour(data)
    return [layer.encode(x=x, color=colour) for layer in shown]


def _interval(lines: pd.DataFrame, colour: alt.Color, bottom: float, top: float) -> alt.Chart:
    """Return the intervals of `lines`, as far as they are between `bottom` and `top`."""
    rows = lines.dropna(subset=["low_s", "high_s"])
    ends = {end: rows[end].clip(bottom, top) for end in ("low_s", "high_s")}
    area = alt.Chart(inline(rows.assign(**ends))).mark_area(opacity=0.12)
    encoded: alt.Chart = area.encode(
        x=nodes_axis(lines["nodes"]),
        y=_FIT.y("low_s"),
        y2=alt.Y2("high_s"),
        color=colour,
        detail=alt.Detail("role:N"),
    )
    return encoded


def line_dash() -> alt.StrokeDash:
    """Return how a line tells, by `role`, where its formula is fitted and where it predicts."""
    return alt.StrokeDash(
        "role:N",
        title=None,
        scale=alt.Scale(domain=["fitted", "predicted"], range=[[1, 0], [5, 4]]),
        legend=of_lines(),
    )


def nodes_axis(counts: Collection[float]) -> alt.X:
    """Return the axis of these node counts."""
    return alt.X(
        "nodes:Q",
        title="Nodes",
        axis={"values": whole(counts), "format": "d"},
        scale={"zero": False, "nice": False, "padding": 12},
    )


def log_nodes_axis() -> alt.X:
    """Return the axis of node counts that double from tick to tick."""
    doubled = [2**power for power in range(7)]
    return alt.X(
        "nodes:Q",
        title="Nodes, log scale",
        axis={"values": doubled, "format": "d", "grid": False},
        scale={"type": "log", "base": 2, "nice": False, "padding": 12},
    )


def _joined(data: pd.DataFrame) -> pd.DataFrame:
    """Return the points of the lines; the predicted stretch begins where the fitted one ends."""
    fitted, predicted = (data[data["role"] == role] for role in ("fitted", "predicted"))
    ends = fitted.sort_values("nodes").groupby("batch_per_worker", as_index=False).last()
    ends = ends[ends["batch_per_worker"].isin(predicted["batch_per_worker"])]
    lines = pd.concat([fitted, predicted, ends.assign(role="predicted")])
    return lines.sort_values(POINT, kind="stable")

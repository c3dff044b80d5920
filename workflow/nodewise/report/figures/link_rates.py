"""Draw the efficiency over slower and faster links."""

import altair as alt
import pandas as pd

from nodewise.core.units import write_number
from nodewise.report.figure import Figure, View, inline
from nodewise.report.figures import _formula_findings, _rows, figure
from nodewise.report.figures._encodings import (
    PHONE,
    by_nodes,
    caution_key,
    dash_legend,
    hollow_if_flagged,
    kind_shape_with_legend,
    legend_columns,
    tooltip,
)
from nodewise.report.figures._rows import CURVE
from nodewise.results.queries import POINT

_VIEW = View("Efficiency over slower and faster links", "efficiency", "Efficiency")


@figure(
    "rates",
    tables="curves predictions rates",
    rows=_rows.link_rates,
    axes=CURVE,
    plots="Efficiency by the rate of the link",
    reading=(
        "The lines scale the fitted bandwidth to each rate, which is in the node's own time. "
        "Points are measured over links of that rate. Where a line is dashed, it leaves the rates "
        "or the numbers of nodes that were measured. Shaded is the interval on the most nodes."
    ),
    lines=["nodes"],
    order=83,
)
def link_rates(rows: pd.DataFrame) -> Figure:
    """Draw the efficiency by the rate of the link, one line per number of nodes.

    The rows are one line of `fit_queries.link_rates`.
    """
    kind = rows["points_kind"].iloc[0]
    view = _VIEW
    values = ["efficiency", "efficiency_low", "efficiency_high", "fitted_s", "low_s", "high_s"]
    data = rows[["role", *POINT, "rate_bit_s", *values, "flags", "cell_id"]]
    batch = data["batch_per_worker"].iloc[0]
    lines, seen = _stretches(data), data[data["role"] == "observed"].assign(kind=kind)
    # overlapping intervals cannot be read, so only that on the most nodes is shaded
    shaded = int((seen if len(seen) else lines)["nodes"].max())
    return Figure(
        finding=_formula_findings.describe_link_rates(lines, shaded),
        layers=_layers(lines, seen, shaded),
        data=data,
        title=view.heading,
        kinds=[kind, "fitted", "predicted"],
        alt=f"Efficiency at batch {batch} by the rate of the link. {_in_words(data)}",
        caption=(
            f"At {batch} examples per worker. Shaded: 90 % interval on {shaded} nodes."
            f"{_misses_in_words(data)}{caution_key(data)}"
        ),
    )


def _layers(lines: pd.DataFrame, seen: pd.DataFrame, shaded: int) -> list[alt.Chart]:
    """Return an interval, lines over the rates (dashed where nothing was measured), and points.

    Args:
        lines: the points of the lines, as `_stretches` returns them.
        seen: the measured points.
        shaded: the number of nodes whose interval is drawn.
    """
    view = _VIEW
    colour, fill = by_nodes(pd.concat([lines, seen]))
    x = alt.X("rate_bit_s:Q", title="Rate of the link in the node's own time, bit/s, log scale")
    x = x.scale(type="log", nice=False, padding=12).axis(format="~s", tickCount=4, grid=False)
    legend = dash_legend(columns=legend_columns(1, 1, 2))
    legend.labelExpr = f"'formula, ' + datum.label + ({PHONE} ? '' : ' what was measured')"
    dash = alt.StrokeDash("role:N", title=None, legend=legend)
    dash = dash.scale(domain=["within", "beyond"], range=[[1, 0], [5, 4]])
    names = ["nodes", "rate_bit_s", "efficiency", "efficiency_low", "efficiency_high", "fitted_s"]
    stretch = alt.Detail(["stretch:N"])
    band = alt.Chart(inline(lines[lines["nodes"] == shaded])).mark_area(opacity=0.16)
    line = alt.Chart(inline(lines)).mark_line(strokeWidth=1.8)
    point = alt.Chart(inline(seen)).mark_point(size=64, strokeWidth=2, opacity=1)
    layers = [
        band.encode(y=view.y("efficiency_low"), y2=alt.Y2("efficiency_high"), detail=stretch),
        line.encode(y=view.y(), strokeDash=dash, detail=stretch, tooltip=tooltip(lines, names)),
        point.encode(
            y=view.y(),
            shape=kind_shape_with_legend(sorted(seen["kind"].unique())),
            fill=fill,
            fillOpacity=hollow_if_flagged(),
            tooltip=tooltip(seen, ["kind", *names, "flags"]),
        ),
    ]
    return [layer.encode(x=x, color=colour) for layer in layers]


def _stretches(data: pd.DataFrame) -> pd.DataFrame:
    """Split each line into stretches within and beyond the measured rates.

    The dashed stretches begin at the points at which the solid one ends.
    """
    parts = []
    for _, rows in data[data["role"] != "observed"].groupby("nodes"):
        line = rows.sort_values("rate_bit_s").assign(stretch="all")
        inside = line.loc[line["role"] == "within", "rate_bit_s"]
        if inside.empty:
            parts.append(line)
            continue
        below, above = line["rate_bit_s"] <= inside.min(), line["rate_bit_s"] >= inside.max()
        parts.append(line[below].assign(role="beyond", stretch="below"))
        parts.append(line[line["role"] == "within"].assign(stretch="within"))
        parts.append(line[above].assign(role="beyond", stretch="above"))
    return pd.concat(parts, ignore_index=True)


def _in_words(data: pd.DataFrame) -> str:
    """List the efficiencies by the formula over the slowest and the fastest link."""
    law = data[data["role"] != "observed"].sort_values("rate_bit_s")
    lines = []
    for nodes, line in law.groupby("nodes"):
        ends = [
            f"{write_number(row['efficiency'], 'share')} at "
            f"{write_number(row['rate_bit_s'], 'bit/s')}"
            for _, row in line.iloc[[0, -1]].iterrows()
        ]
        lines.append(f"{nodes} nodes, {' and '.join(ends)}")
    return f"Predicted: {'; '.join(lines)}."


def _misses_in_words(data: pd.DataFrame) -> str:
    """State how far the measured efficiencies are from the formula; empty without any."""
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

"""Draw strategies side by side: their throughput, and where the time of a step goes."""

import altair as alt
import pandas as pd

from nodewise.core.units import write_number
from nodewise.report import evidence, theme
from nodewise.report.figure import LOG, Figure, View, inline
from nodewise.report.figures import _findings, figure
from nodewise.report.figures._encodings import (
    PHONE,
    by_nodes,
    caution_key,
    hollow_if_flagged,
    kind_shape,
    kinds_of,
    label_expression,
    label_lines,
    strategy_titles,
    tooltip,
)
from nodewise.report.figures._stacks import MARKED, READING, cautions, stacked
from nodewise.results.comparisons import on_devices
from nodewise.results.queries import LAUNCHES, TIMED_STEP, compared_parts, compared_strategies

_ROW, _LINE = 28, 15  # heights in pixels of a strategy's row, and of a line of its title
_AXES = ["experiment", "model", "dataset", "batch_per_worker", "kind"]
_VIEW = View("Examples per second by strategy", "examples_per_s", "Examples per second", "log")
_THROUGHPUT = [
    *("kind", "strategy", "nodes"),
    *("examples_per_s", "low", "high", "speedup", "efficiency", "step_time_s"),
]


@figure(
    "ways",
    tables="curves published published_runs",
    rows=lambda tables: evidence.check_times(compared_strategies(tables["curves"]), tables),
    axes=_AXES,
    plots="Examples per second by strategy",
    reading=(
        "The fastest strategy stands uppermost. The batch per worker is the same everywhere: more "
        "nodes make larger steps. Ticks are ideal scaling: n nodes are n times as fast as one. "
        "Bars are the interval of the median over launches, where there are "
        "several."
    ),
    section="Strategies compared",
    order=30,
)
def throughput(rows: pd.DataFrame) -> Figure:
    """Draw the examples per second, by strategy and nodes (`queries.compared_strategies`)."""
    examples = rows["examples_per_s"] * rows["step_time_s"]
    data = rows.assign(
        low=examples / rows["step_time_high_s"],
        high=examples / rows["step_time_low_s"],
        ideal=rows["examples_per_s"] / rows["efficiency"],
    )[[*_THROUGHPUT, *LAUNCHES, "ideal"]]
    titles, shared = strategy_titles(rows), _shared_nodes(data)
    ranked = _ranked(data[data["nodes"] == shared], titles, "examples_per_s", "/s")
    return Figure(
        finding=_findings.describe_strategies(rows),
        layers=_throughput_layers(data, titles),
        data=data,
        title=_VIEW.heading,
        kinds=kinds_of(data),
        alt=f"Examples per second on {shared} nodes: {ranked}.",
        caption=f"Ticks: ideal scaling.{_devices(rows, titles)}{caution_key(data)}",
        axis="x",
        height=_height(titles),
    )


def _shared_nodes(data: pd.DataFrame) -> int:
    """Return the number of nodes that most strategies have; of several, the largest.

    One node is considered only if no strategy has more.
    """
    several = data[data["nodes"] > 1]
    rows = several if len(several) else data
    counts = rows.groupby("nodes")["strategy"].nunique()
    return int(counts[counts == counts.max()].index.max())


def _throughput_layers(data: pd.DataFrame, titles: dict[str, str]) -> list[alt.Chart]:
    """Return a line along each strategy, ticks of ideal scaling, intervals, and points."""
    colour, fill = by_nodes(data)
    rank = _strategies(data, titles, "examples_per_s", "max")
    base = alt.Chart(inline(data)).encode(
        x=alt.X("examples_per_s:Q", title=_VIEW.axis_title)
        .scale(**LOG)
        .axis(tickCount=5, format="~s", labelSeparation=8),
        y=rank,
    )
    reach = base.mark_line(strokeWidth=1, color=theme.NEUTRAL).encode(
        detail=alt.Detail("strategy:N")
    )
    several = data[data["nodes"] > 1].dropna(subset="ideal")[["strategy", "nodes", "ideal"]]
    several = several.rename(columns={"ideal": "examples_per_s"}).assign(speedup=several["nodes"])
    ideal = (
        alt.Chart(inline(several))
        .mark_tick(thickness=2, size=12, color=theme.NEUTRAL)
        .encode(
            x=alt.X("examples_per_s:Q"), y=rank, tooltip=tooltip(several, [str(n) for n in several])
        )
    )
    interval = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=2)
    points = base.mark_point(size=70, strokeWidth=2, opacity=1).encode(
        color=colour,
        fill=fill,
        shape=kind_shape(data),
        fillOpacity=hollow_if_flagged(),
        tooltip=tooltip(data, [*_THROUGHPUT, "repeats", "flags"]),
    )
    layers = [reach, *([ideal] if len(several) else []), points]
    if data["low"].notna().any():
        layers.insert(-1, interval.encode(x=alt.X("low:Q"), x2=alt.X2("high"), color=colour))
    return layers


@figure(
    "ways-parts",
    tables="curves published published_runs",
    rows=lambda tables: evidence.check_times(compared_parts(tables["curves"]), tables),
    axes=_AXES,
    plots="The parts of a step by strategy",
    reading=(
        "Input is the wait for examples in the timed steps; the other parts come from separate "
        "split steps. What cannot be timed apart counts as compute; the page of each strategy says "
        f"what its parts are. {READING}"
    ),
    section="Strategies compared",
    order=31,
)
def parts(rows: pd.DataFrame) -> Figure:
    """Draw the parts of a step as stacked bars, by strategy, on one number of nodes."""
    names = ["kind", "strategy", "nodes"]
    data = rows[[*names, "part", "seconds", *TIMED_STEP, *LAUNCHES]]
    titles = strategy_titles(rows)
    rank = _strategies(data, titles, "seconds", "sum", order="ascending")
    whole = data.groupby(["strategy", "nodes"])["seconds"].sum().reset_index()
    count = int(data["nodes"].max())
    return Figure(
        finding=_findings.describe_parts_of_strategies(rows),
        layers=[*stacked(data, names, y=rank), *cautions(data, names, y=rank)],
        data=data,
        title=f"Where the time of a step goes on {count} nodes",
        kinds=kinds_of(data),
        alt=f"The parts of a step, stacked. In total: {_ranked(whole, titles, 'seconds', 's')}.",
        caption=caution_key(data, MARKED).strip(),
        axis="x",
        height=_height(titles),
    )


def _devices(rows: pd.DataFrame, titles: dict[str, str]) -> str:
    """State which strategies use devices of one process instead of nodes; empty if none do."""
    names = sorted(rows.loc[on_devices(rows), "strategy"].unique())
    who = " and ".join(titles[name] for name in names)
    return f" {who}: devices of one process, with no network between them." if names else ""


def _height(titles: dict[str, str]) -> int:
    lines = max(len(label_lines(title)) for title in titles.values())
    return len(titles) * max(_ROW, _LINE * lines)


def _strategies(
    data: pd.DataFrame, titles: dict[str, str], by: str, how: str, order: str = "descending"
) -> alt.Y:
    """Return the vertical axis of strategies, the best one at the top.

    Args:
        data: the rows.
        titles: the titles of the strategies, by name.
        by: the column to rank by.
        how: how it is aggregated for each strategy.
        order: `ascending` if low values are better.
    """
    values = data.groupby("strategy")[by].agg(how)
    ranked = list(values.sort_values(ascending=order == "ascending").index)
    axis = alt.Axis(
        labelExpr=label_expression(titles),
        labelLineHeight=13,
        labelLimit=alt.ExprRef(f"{PHONE} ? 150 : 200"),
        ticks=False,
        grid=True,
    )
    return alt.Y("strategy:N", title=None, sort=ranked, axis=axis)


def _ranked(data: pd.DataFrame, titles: dict[str, str], value: str, unit: str) -> str:
    """List the strategies' values on the most nodes, the largest first."""
    last = data[data["nodes"] == data["nodes"].max()].sort_values(value, ascending=False)
    pairs = zip(last["strategy"], last[value], strict=True)
    return ", ".join(f"{titles[name]} {write_number(number, unit)}" for name, number in pairs)

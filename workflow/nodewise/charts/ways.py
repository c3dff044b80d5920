"""Figures of many ways of training side by side: throughput, and where the time of a step goes."""

import altair as alt
import pandas as pd

from nodewise.charts import theme
from nodewise.charts.figure import Figure, few, inline, kinds_of, layered, tooltip
from nodewise.charts.scaling import HOLLOW
from nodewise.quantities import write_number

_LAUNCHES = ["repeats", "flags"]


def throughput(rows: pd.DataFrame, of: dict[str, str]) -> Figure:
    """Draw examples per second by strategy and nodes (`views.ways`)."""
    names = ["kind", "strategy", "nodes", "examples_per_s", "speedup", "efficiency", "step_time_s"]
    data = rows[[*names, *_LAUNCHES]].assign(ideal=rows["examples_per_s"] / rows["efficiency"])
    nodes = sorted(map(int, data["nodes"].unique()))
    scale = alt.Scale(domain=nodes, range=theme.batch_colours(len(nodes)))
    legend = alt.Legend(symbolOpacity=1, columns=few(3, 8))
    rank = _strategies(data, "examples_per_s", "max")
    base = alt.Chart(inline(data)).encode(
        x=alt.X("examples_per_s:Q", title="Examples per second (log scale)")
        .scale(type="log", nice=False, padding=14)
        .axis(tickCount=5, format="~s"),
        y=rank,
    )
    reach = base.mark_line(strokeWidth=1, color=theme.NEUTRAL).encode(detail="strategy:N")
    several = data[data["nodes"] > 1].dropna(subset="ideal")
    ideal = (
        alt.Chart(inline(several))
        .mark_tick(thickness=2, size=12, color=theme.NEUTRAL)
        .encode(x="ideal:Q", y=rank, tooltip=tooltip(data, ["strategy", "nodes", "ideal"]))
    )
    points = base.mark_point(size=70, strokeWidth=2, opacity=1).encode(
        color=alt.Color("nodes:O", title="Nodes", scale=scale, legend=legend),
        fill=alt.Fill("nodes:O", title="Nodes", scale=scale, legend=legend),
        fillOpacity=alt.condition("datum.flags", alt.value(0), alt.value(1)),
        tooltip=tooltip(data, [*names, *_LAUNCHES]),
    )
    return Figure(
        figure="ways",
        of=of,
        chart=layered(reach, *([ideal] if len(several) else []), points),
        data=data,
        title="Examples per second by strategy",
        kinds=kinds_of(data),
        alt=f"Examples per second on {nodes[-1]} nodes: {_ranked(data, 'examples_per_s', '')}.",
        caption=(
            "The batch per worker is the same everywhere: more nodes, larger steps. Ticks: "
            f"theoretical scaling, as many times the examples of one node as nodes. {HOLLOW}"
        ),
    )


def parts(rows: pd.DataFrame, of: dict[str, str]) -> Figure:
    """Draw the parts of a step by strategy, stacked, on one number of nodes (`views.way_parts`)."""
    names = ["kind", "strategy", "nodes", "part", "seconds", *_LAUNCHES]
    data = rows[names]
    order = list(theme.PART_COLOURS)
    colours = alt.Scale(domain=order, range=list(theme.PART_COLOURS.values()))
    bars = (
        alt.Chart(inline(data))
        .transform_calculate(rank=f"indexof({order}, datum.part)")
        .mark_bar()
        .encode(
            x=alt.X("seconds:Q", title="Time of one step (s)").stack("zero"),
            y=_strategies(data, "seconds", "sum", order="ascending"),
            color=alt.Color("part:N", title=None, scale=colours).legend(columns=few(2, 5)),
            order="rank:Q",
            opacity=alt.condition("datum.flags", alt.value(0.6), alt.value(1)),
            tooltip=tooltip(data, names),
        )
    )
    whole = data.groupby(["strategy", "nodes"])["seconds"].sum().reset_index()
    count = int(data["nodes"].max())
    return Figure(
        figure="ways-parts",
        of=of,
        chart=layered(bars),
        data=data,
        title=f"Where the time of a step goes on {count} nodes",
        kinds=kinds_of(data),
        alt=f"The parts of a step, stacked. In all, {_ranked(whole, 'seconds', 's')}.",
        caption=(
            "The parts that are timed apart. What cannot be told apart is in compute; the page of "
            "each strategy says what its parts are. Pale bars call for caution."
        ),
    )


def _strategies(data: pd.DataFrame, by: str, how: str, order: str = "descending") -> alt.Y:
    """Return the strategies as rows, the best one uppermost."""
    values = data.groupby("strategy")[by].agg(how)
    ranked = list(values.sort_values(ascending=order == "ascending").index)
    return alt.Y("strategy:N", title=None, sort=ranked).axis(labelLimit=150, ticks=False, grid=True)


def _ranked(data: pd.DataFrame, value: str, unit: str) -> str:
    """Say the strategies' values on the most nodes, the largest first."""
    last = data[data["nodes"] == data["nodes"].max()].sort_values(value, ascending=False)
    pairs = zip(last["strategy"], last[value], strict=True)
    return ", ".join(f"{strategy} {write_number(number, unit)}" for strategy, number in pairs)

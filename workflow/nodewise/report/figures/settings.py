"""Draw steps on one number of nodes under several settings: links, shares of a core, inputs."""

from textwrap import wrap

import altair as alt
import pandas as pd

from nodewise.core.units import write_number
from nodewise.report import evidence
from nodewise.report.figure import Figure, inline
from nodewise.report.figures import _findings, figure
from nodewise.report.figures._encodings import caution_key, kinds_of, strategy_titles
from nodewise.report.figures._stacks import MARKED, READING, stacked, whole_bars
from nodewise.results import queries
from nodewise.results.queries import LAUNCHES, TIMED_STEP

_AT = ["line", "setting"]
_ROW = [*_AT, "batch_per_worker"]
_LETTERS = 24  # most letters of a line of a name
_BAR, _LINE = 18, 15  # heights in pixels of a bar, and of a line of a name


@figure(
    "settings",
    tables="curves cells published published_runs",
    rows=lambda tables: evidence.check_times(queries.settings(tables), tables),
    axes=["model", "dataset", "nodes"],
    plots="The parts of a step under several settings",
    reading=(
        "Input is the wait for examples in the timed steps; the other parts come from separate "
        "split steps; medians over launches. A setting is the share of a core, the link, and where "
        "the examples come from, if not from each node's own shard. Times of emulated nodes are "
        f"the node's own, as if it had a whole core. {READING}"
    ),
    section="Other nodes, links and inputs",
    order=50,
)
def settings(rows: pd.DataFrame) -> Figure:
    """Draw the parts of a step, stacked, by strategy, setting and batch (`queries.settings`)."""
    titles = strategy_titles(rows)
    names = ["kind", *_ROW, "nodes"]
    data = rows[[*names, "part", "seconds", *TIMED_STEP, *LAUNCHES]].reset_index(drop=True)
    total = data.groupby(_ROW)["seconds"].sum().rename("step").reset_index()
    labels = _row_labels(total, titles)
    drawn = data.assign(row=[labels[at] for at in data[_AT].itertuples(index=False, name=None)])
    places: dict[str, alt.Y | alt.YOffset] = {
        "y": _row_axis([*labels.values()]),
        "yOffset": alt.YOffset("batch_per_worker:O").scale(paddingInner=0.15),
    }
    words = "; ".join(
        f"{titles[line]}, {setting}, batch {batch}: {write_number(float(step), 's')}"
        for line, setting, batch, step in total.to_numpy()
    )
    nodes = int(data["nodes"].iloc[0])
    lines = total["line"].unique()
    whose = f"{titles[lines[0]]}, one" if len(lines) == 1 else "One"
    of_names = _LINE * (2 + max(map(_breaks, labels.values())))
    row = max(_BAR * data["batch_per_worker"].nunique(), of_names)
    return Figure(
        finding=_findings.describe_settings(rows),
        layers=[*stacked(drawn, names, **places), _batches(whole_bars(drawn, names), **places)],
        data=data,
        title=f"{whose} step on {nodes} nodes under several settings",
        kinds=kinds_of(data),
        alt=f"Total time of a step on {nodes} nodes. {words}.",
        caption=f"The number beside a bar is the batch per worker.{caution_key(data, MARKED)}",
        axis="x",
        height=row * len(labels),
    )


def _row_labels(total: pd.DataFrame, titles: dict[str, str]) -> dict[tuple[str, str], str]:
    """Return the label of each strategy and setting, the slowest strategy and setting first.

    A single strategy is left out of the labels: the title of the figure names it.
    """
    longest = total.groupby("line")["step"].max().sort_values(ascending=False)
    strategies = longest.index.tolist()
    ranked = total.groupby(_AT)["step"].max().sort_values(ascending=False).index
    shown = titles if len(strategies) > 1 else dict.fromkeys(strategies, "")
    return {
        (line, setting): _label(shown[line], setting)
        for line, setting in sorted(ranked, key=lambda at: strategies.index(at[0]))
    }


def _label(title: str, setting: str) -> str:
    """Return the label of a row, with `|` between its lines."""
    return "|".join(
        line for text in (title, setting) for line in wrap(text, _LETTERS, break_long_words=False)
    )


def _row_axis(labels: list[str]) -> alt.Y:
    """Return the axis of rows, in the order of `labels`."""
    return alt.Y("row:N", title=None, sort=labels).axis(
        labelExpr="split(datum.label, '|')",
        labelLineHeight=13,
        labelOffset=-7 * max(map(_breaks, labels)),  # Vega centres the first line
        labelLimit=180,
        labelPadding=6,
        ticks=False,
    )


def _batches(bars: pd.DataFrame, **places: alt.Y | alt.YOffset) -> alt.Chart:
    """Return the batch beyond the end of each bar, with a mark if the bar is flagged."""
    marks = bars["flags"].ne("").map({True: " !", False: ""})
    numbers = bars.assign(batch=bars["batch_per_worker"].astype(str) + marks)
    chart: alt.Chart = (
        alt.Chart(inline(numbers))
        .mark_text(align="left", dx=4, fontSize=12)
        .encode(**places, x=alt.X("end:Q"), text=alt.Text("batch:N"))
    )
    return chart


def _breaks(label: str) -> int:
    return label.count("|")

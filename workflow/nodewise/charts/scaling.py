"""Figures of what was measured: time, accuracy, parts of a step, speed-up, epochs.

Every function takes rows whose axes in `of` are the same, as `nodewise.views` makes them.
"""

import altair as alt
import pandas as pd

from nodewise.charts import theme
from nodewise.charts.figure import Figure, few, in_words, inline, kinds_of, layered, tooltip
from nodewise.quantities import PROJECTED

HOLLOW = "Hollow points call for caution: more workers than cores, or a machine not at rest."
BAR_GAP = 0.12
MOST_LINES = 2  # strategies that need no colour each: one, and its beginning on one node
_POINT = ["line", "batch_per_worker", "nodes"]
_LAUNCHES = ["repeats", "flags"]


def training_time(rows: pd.DataFrame, of: dict[str, str]) -> Figure:
    """Draw training time by batch and nodes, ours beside the published (`views.training_times`)."""
    data = rows.rename(columns={"low_seconds": "low", "high_seconds": "high"})
    data = data[["kind", "experiment", *_POINT, "epochs", "seconds", "low", "high", *_LAUNCHES]]
    epochs = _span(data["epochs"])
    caption = "Each group of points is one batch size, with its nodes counted below it. " + HOLLOW
    if data["low"].notna().any():
        caption += " Vertical bars: 90 % interval of the median over launches."
    if data["kind"].str.contains(PROJECTED).any():
        caption += (
            " Where a cell measured some steps only, its training time is the median step time "
            "multiplied by the number of steps that training takes."
        )
    scale = alt.Scale(
        type="log", domain=[data["seconds"].min() * 0.8, data["seconds"].max() * 1.25], nice=False
    )
    y = alt.Y("seconds:Q", title=f"Training time of {epochs} (s, log scale)", scale=scale)
    return Figure(
        figure="time",
        of=of,
        chart=_nested_points(data, y.axis(tickCount=6), intervals=True),
        data=data,
        title=f"Training time of {epochs} by batch and nodes",
        kinds=kinds_of(data),
        alt=f"Training time of {epochs}. {in_words(data, 'seconds', 's')}",
        caption=caption,
    )


def accuracy(rows: pd.DataFrame, of: dict[str, str]) -> Figure:
    """Draw training accuracy by batch and nodes, ours beside the published (`views.accuracies`)."""
    data = rows[["kind", "experiment", *_POINT, "epochs", "accuracy", "test_accuracy", *_LAUNCHES]]
    epochs = _span(data["epochs"])
    y = alt.Y("accuracy:Q", title=f"Training accuracy after {epochs}")
    return Figure(
        figure="accuracy",
        of=of,
        chart=_nested_points(data, y.scale(zero=False, padding=12)),
        data=data,
        title=f"Training accuracy after {epochs} by batch and nodes",
        kinds=kinds_of(data),
        alt=f"Training accuracy after {epochs}. {in_words(data, 'accuracy', 'accuracy')}",
        caption=(
            "Only cells that trained whole epochs have an accuracy. The batch is per worker: more "
            f"nodes make fewer, larger steps of the same epoch. {HOLLOW}"
        ),
    )


def step_split(rows: pd.DataFrame, of: dict[str, str]) -> Figure:
    """Draw the parts of a step, stacked, by batch and nodes (`views.step_parts`)."""
    data = rows[["kind", *_POINT, "part", "seconds", *_LAUNCHES]]
    parts = list(theme.PART_COLOURS)
    colours = alt.Scale(domain=parts, range=list(theme.PART_COLOURS.values()))
    bars = (
        alt.Chart(inline(data))
        .transform_calculate(rank=f"indexof({parts}, datum.part)")
        .mark_bar()
        .encode(
            x=_batch_axis(data),
            xOffset=_node_offset(data, BAR_GAP),
            y=alt.Y("seconds:Q", title="Time of one step (s)").stack("zero"),
            color=alt.Color("part:N", title=None, scale=colours).legend(columns=few(2, 5)),
            order="rank:Q",
            opacity=alt.condition("datum.flags", alt.value(0.6), alt.value(1)),
            tooltip=tooltip(data, ["kind", "part", *_POINT, "seconds", *_LAUNCHES]),
        )
    )
    step = data.groupby(["batch_per_worker", "nodes"])["seconds"].transform("sum")
    shares = data.assign(share=data["seconds"] / step)[data["part"] == "communicate"]
    return Figure(
        figure="split",
        of=of,
        chart=layered(bars, _node_numbers(data, BAR_GAP)),
        data=data,
        title="Where the time of a step goes",
        kinds=kinds_of(data),
        alt=(
            "The parts of a step, stacked: input, compute, wait, communicate, apply. "
            f"Share of communication. {in_words(shares, 'share', 'share')}"
        ),
        caption=(
            "Waiting for the examples of a timed step (input); then steps whose parts are timed "
            "apart: the gradient (compute), waiting for the slowest worker (wait), the all-reduce "
            "(communicate), the update of the weights (apply). Each is a median over steps and "
            "launches. Pale bars call for caution, as hollow points do."
        ),
    )


def speedup(rows: pd.DataFrame, of: dict[str, str]) -> Figure:
    """Draw throughput against one node (`views.speedups`)."""
    data = rows[["kind", *_POINT, "speedup", "step_time_s", *_LAUNCHES]]
    last = int(data["nodes"].max())
    ideal = pd.DataFrame({"nodes": [1, last], "speedup": [1, last]})
    return Figure(
        figure="speedup",
        of=of,
        chart=_lines_over_nodes(data, "speedup", "Speed-up against one node", ideal),
        data=data,
        title="Speed-up by nodes",
        kinds=kinds_of(data),
        alt=f"Throughput against one node. {in_words(data, 'speedup', '×')}",
        caption=(
            "Examples per second against one node at the same batch per worker. Dashed: ideal "
            f"scaling. Below 1, one node is faster. {HOLLOW}"
        ),
    )


def efficiency(rows: pd.DataFrame, of: dict[str, str]) -> Figure:
    """Draw speed-up ÷ nodes (`views.speedups`)."""
    data = rows[["kind", *_POINT, "efficiency", "step_time_s", *_LAUNCHES]]
    ideal = pd.DataFrame({"nodes": [1, int(data["nodes"].max())], "efficiency": [1, 1]})
    return Figure(
        figure="efficiency",
        of=of,
        chart=_lines_over_nodes(data, "efficiency", "Efficiency (speed-up ÷ nodes)", ideal),
        data=data,
        title="Efficiency by nodes",
        kinds=kinds_of(data),
        alt=f"Efficiency. {in_words(data, 'efficiency', 'share')}",
        caption=f"The share of the ideal speed-up that was reached. Dashed: all of it. {HOLLOW}",
    )


def by_epoch(rows: pd.DataFrame, of: dict[str, str], value: str) -> Figure:
    """Draw training `loss` or `accuracy` (`value`) over the epochs (`views.epochs`)."""
    names = ["strategy", "batch_per_worker", "nodes", "repeat", "epoch"]
    data = rows[["kind", *names, value]]
    colour, fill = batch_colour(data), batch_fill(data)
    if data["strategy"].nunique() > MOST_LINES:
        legend = alt.Legend(symbolOpacity=1, columns=few(2, 5))
        scale = alt.Scale(range=theme.CATEGORIES)
        colour = alt.Color("strategy:N", title=None, legend=legend, scale=scale)
        fill = alt.Fill("strategy:N", title=None, legend=legend, scale=scale)
    base = alt.Chart(inline(data)).encode(
        x=alt.X("epoch:Q", title="Epoch")
        .axis(values=sorted(map(int, data["nodes"].unique())), format="d")
        .scale(zero=False, nice=False, padding=12),
        y=alt.Y(f"{value}:Q", title=f"Training {value}").scale(zero=False, padding=10),
        color=colour,
        detail=["strategy:N", "repeat:N", "nodes:O"],
    )
    dash = alt.StrokeDash("nodes:O", title="Nodes").legend(
        symbolType="stroke", symbolStrokeColor=theme.NEUTRAL
    )
    lines = base.mark_line(strokeWidth=1.8).encode(strokeDash=dash)
    points = base.mark_point(size=30, opacity=1).encode(
        fill=fill, tooltip=tooltip(data, ["kind", *names, value])
    )
    last = data[data["epoch"] == data["epoch"].max()]
    return Figure(
        figure=f"{value}-by-epoch",
        of=of,
        chart=layered(lines, points),
        data=data,
        title=f"Training {value} by epoch",
        kinds=kinds_of(data),
        alt=f"Training {value}, after the last epoch. {in_words(last, value, 'accuracy')}",
        caption=f"The mean {value} over the epoch, taken while the weights were still moving.",
    )


def batch_colour(data: pd.DataFrame) -> alt.Color:
    """Return the batches in `data` as stroke colours, one ramp from the smallest to the largest."""
    colour = alt.Color("batch_per_worker:O", title="Batch per worker", scale=_batch_scale(data))
    return colour.legend(symbolOpacity=1, columns=few(3, 8))


def batch_fill(data: pd.DataFrame) -> alt.Fill:
    """Return `batch_colour` for the inside of points; the two share one legend."""
    fill = alt.Fill("batch_per_worker:O", title="Batch per worker", scale=_batch_scale(data))
    return fill.legend(symbolOpacity=1, columns=few(3, 8))


def _batch_scale(data: pd.DataFrame) -> alt.Scale:
    batches = sorted(int(batch) for batch in data["batch_per_worker"].unique())
    return alt.Scale(domain=batches, range=theme.batch_colours(len(batches)))


def _batch_axis(data: pd.DataFrame) -> alt.X:
    batches = sorted(int(batch) for batch in data["batch_per_worker"].unique())
    return (
        alt.X("batch_per_worker:O", title="Nodes (batch per worker below)")
        .axis(labelAngle=0, labelPadding=19, ticks=False, labelFontSize=12, labelFontWeight=600)
        .scale(domain=batches, paddingInner=0.25, paddingOuter=0.12)
    )


def _node_offset(data: pd.DataFrame, gap: float | None = None) -> alt.XOffset:
    """Return the place of a node count within its batch; bars leave a `gap` between them."""
    nodes = sorted(int(count) for count in data["nodes"].unique())
    inner = alt.Undefined if gap is None else gap
    return alt.XOffset("nodes:O").scale(domain=nodes, paddingInner=inner)


def _node_numbers(data: pd.DataFrame, gap: float | None = None) -> alt.Chart:
    """Return the node counts as a second row of axis labels, above the batches."""
    points = data[["batch_per_worker", "nodes"]].drop_duplicates()
    text = alt.Chart(points).mark_text(baseline="top", dy=5, fontSize=11)
    numbers: alt.Chart = text.encode(
        x=_batch_axis(data), xOffset=_node_offset(data, gap), y=alt.value("height"), text="nodes:O"
    )
    return numbers


def _nested_points(data: pd.DataFrame, y: alt.Y, *, intervals: bool = False) -> alt.LayerChart:
    """Draw points over nodes within batch, a line per batch, kinds told by colour and shape."""
    kinds = kinds_of(data)
    colours = alt.Scale(domain=kinds, range=theme.kind_colours(kinds))
    shapes = alt.Scale(domain=kinds, range=theme.kind_shapes(kinds))
    legend = alt.Legend(
        direction="vertical",
        symbolOpacity=1,
        labelExpr="split(datum.label, width < 300 ? ', ' : '|')",
    )
    colour = alt.Color("kind:N", title=None, scale=colours, legend=legend)
    shape = alt.Shape("kind:N", title=None, scale=shapes, legend=legend)
    fill = alt.Fill("kind:N", title=None, scale=colours, legend=legend)
    base = alt.Chart(inline(data)).encode(
        x=_batch_axis(data), xOffset=_node_offset(data), color=colour
    )
    lines = base.mark_line(strokeWidth=1.5, opacity=0.65).encode(
        y=y, detail=["batch_per_worker:O", "line:N", "experiment:N"]
    )
    names = [str(name) for name in data.columns if name != "experiment"]
    points = base.mark_point(size=64, strokeWidth=2, opacity=1).encode(
        y=y,
        shape=shape,
        fill=fill,
        fillOpacity=alt.condition("datum.flags", alt.value(0), alt.value(1)),
        tooltip=tooltip(data, names),
    )
    layers = [lines, points, _node_numbers(data)]
    if intervals:
        measured = base.transform_filter("isValid(datum.low)")
        layers.insert(1, measured.mark_rule(strokeWidth=2).encode(y=alt.Y("low:Q"), y2="high:Q"))
    return layered(*layers)


def _lines_over_nodes(
    data: pd.DataFrame, value: str, title: str, ideal: pd.DataFrame
) -> alt.LayerChart:
    """Draw one line per batch over the nodes, and what would be ideal."""
    x = (
        alt.X("nodes:Q", title="Nodes")
        .axis(values=sorted(map(int, data["nodes"].unique())), format="d")
        .scale(zero=False, padding=12)
    )
    y = alt.Y(f"{value}:Q", title=title).scale(zero=True)
    base = alt.Chart(inline(data)).encode(x=x, y=y, color=batch_colour(data))
    guide = alt.Chart(ideal).mark_line(strokeDash=[3, 4], strokeWidth=1.5, color=theme.NEUTRAL)
    return layered(
        guide.encode(x=x, y=y),
        base.mark_line(strokeWidth=1.8, opacity=0.75),
        base.mark_point(size=64, strokeWidth=2, opacity=1).encode(
            fill=batch_fill(data),
            fillOpacity=alt.condition("datum.flags", alt.value(0), alt.value(1)),
            tooltip=tooltip(data, [str(name) for name in data.columns]),
        ),
    )


def _span(epochs: pd.Series) -> str:
    low, high = int(epochs.min()), int(epochs.max())
    return f"{low} to {high} epochs" if low < high else f"{low} epoch{'s' if low > 1 else ''}"

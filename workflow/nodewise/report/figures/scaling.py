"""Figures of what was measured: time, accuracy, parts of a step, speed-up, epochs.

Every function takes rows whose axes in `of` are the same, as `nodewise.predict.queries` makes them.
"""

from typing import Any

import altair as alt
import pandas as pd

from nodewise.core.cell import node_in_words
from nodewise.core.units import PROJECTED, counted, write_number
from nodewise.models.registry import title_of
from nodewise.predict import queries
from nodewise.predict.queries import LAUNCHES
from nodewise.report import theme
from nodewise.report.figure import (
    HALF,
    PHONE,
    Figure,
    View,
    called,
    calling,
    few,
    hollow,
    in_words,
    inline,
    kind_shape,
    kinds_of,
    of_lines,
    tooltip,
    whole,
)
from nodewise.report.figures import _findings, _rows, figure
from nodewise.report.figures._rows import LINE, MODEL
from nodewise.report.figures.stacks import PALE, cautions, stacked

HOLLOW = "Hollow points call for caution: more workers than cores, or a machine not at rest."
BAR_GAP = 0.12
MOST_LINES = 2  # strategies that need no colour each: one, and its beginning on one node
_POINT = ["line", "batch_per_worker", "nodes"]
_TIME = ["step_time_s", "step_time_low_s", "step_time_high_s"]
_SPEEDUP = View("speedup", "Speed-up by nodes", "speedup", "Speed-up against one node")
_BATCHES = View("speedup", "Speed-up by batch", "speedup", "Speed-up against one node")
_THROUGHPUT = View(
    "absolute", "Examples per second by nodes", "examples_per_s", "Examples per second"
)
_UNTOLD = ("experiment", "cell_id", "series", "dash")
# what may tell lines of one kind and batch from each other, the shortest names first
_TELLING = (
    (),
    ("cluster",),
    ("line",),
    ("cluster", "line"),
    ("experiment",),
    ("experiment", "line"),
)


@figure(
    "time",
    tables="curves cells published",
    rows=_rows.training_times,
    axes=MODEL,
    section="Training time",
    order=10,
)
def training_time(rows: pd.DataFrame, of: dict[str, str]) -> Figure:
    """Draw training time by batch and nodes, ours beside the published."""
    data = rows.rename(columns={"low_seconds": "low", "high_seconds": "high"})
    values = ["epochs", "seconds", "low", "high", "speedup"]
    data = data[["kind", "experiment", "cluster", "machine", *_POINT, *values, *LAUNCHES]]
    epochs = _span(data["epochs"])
    caption = "Each group of points is one batch size, with its nodes counted below it. " + HOLLOW
    if data["kind"].str.startswith("emulated").any():
        caption += " Times of emulated nodes are the node's own, as if it had a whole core."
    caption += _several_clusters(data) + _several_machines(data)
    if data["low"].notna().any():
        caption += " Vertical bars: 90 % interval of the median over launches."
    if data["kind"].str.contains(PROJECTED).any():
        caption += (
            " Where a cell ran only some steps, its training time is its step time (median over "
            "launches) times the number of steps of the training."
        )
    time = f"Training time of {epochs}"
    views = (
        View("absolute", f"{time} by batch and nodes", "seconds", f"{time} (s)", "log"),
        View(
            "speedup",
            f"Speed-up in {time.lower()} by batch and nodes",
            "speedup",
            "Speed-up against one node",
        ),
    )
    return Figure(
        figure="time",
        of=of,
        layers=_nested_points(data, views[0].y().axis(tickCount=6), intervals=True),
        data=data,
        title=views[0].heading,
        kinds=kinds_of(data),
        alt=f"{time}. {in_words(data, 'seconds', 's')}",
        caption=caption,
        views=views,
    )


@figure(
    "accuracy",
    tables="curves cells published",
    rows=_rows.accuracies,
    axes=MODEL,
    section="Training accuracy",
    order=20,
)
def accuracy(rows: pd.DataFrame, of: dict[str, str]) -> Figure:
    """Draw training accuracy by batch and nodes, ours beside the published."""
    values = ["epochs", "accuracy", "test_accuracy"]
    data = rows[["kind", "experiment", "cluster", "machine", *_POINT, *values, *LAUNCHES]]
    epochs = _span(data["epochs"])
    y = alt.Y("accuracy:Q", title=f"Training accuracy after {epochs}")
    return Figure(
        figure="accuracy",
        of=of,
        layers=_nested_points(data, y.scale(zero=False, padding=12)),
        data=data,
        title=f"Training accuracy after {epochs} by batch and nodes",
        kinds=kinds_of(data),
        alt=f"Training accuracy after {epochs}. {in_words(data, 'accuracy', 'accuracy')}",
        caption=(
            "Only cells that trained whole epochs have an accuracy. The batch is per worker: more "
            f"nodes make fewer, larger steps of the same epoch. {HOLLOW}{_several_clusters(data)}"
        ),
    )


@figure(
    "improvement",
    tables="curves cells published",
    rows=queries.improvements,
    axes=["study"],
    order=90,
)
def improvement(rows: pd.DataFrame, of: dict[str, str]) -> Figure:
    """Draw the share of the training time that more nodes save (`queries.improvements`)."""
    values = ["kind", "title", "batch", "nodes", "saved", "experiment", *LAUNCHES]
    # not `model` and `batch_per_worker`: readers filter by those, and the mean is of none
    batch = rows["batch_per_worker"].astype("string").fillna("each its own")
    data = rows.assign(title=rows["model"].map(lambda name: title_of(name) or "Mean"), batch=batch)[
        values
    ]
    title = "Training time that more nodes save"
    words = "; ".join(
        f"{model}, {counted(nodes, 'node')}: {write_number(saved, 'share')} {kind}"
        for kind, model, nodes, saved in data[["kind", "title", "nodes", "saved"]].to_numpy()
    )
    return Figure(
        figure="improvement",
        of=of,
        layers=_improvement_layers(data),
        data=data,
        title=title,
        kinds=kinds_of(data),
        alt=f"{title}. {words}.",
        caption=(
            "Each model at the batch at which the study saved most on its largest number of nodes. "
            f"A mean is shown only for kinds that cover all models. {HOLLOW}"
        ),
        axis="x",
    )


def _improvement_layers(data: pd.DataFrame) -> list[alt.Chart]:
    """Return a point for each kind, model and number of nodes, and lines between the kinds."""
    at = [f"{model}, {nodes}" for model, nodes in data[["title", "nodes"]].to_numpy()]
    points = inline(data.assign(at=at))
    y = alt.Y("at:N", title="Model, nodes", sort=[*dict.fromkeys(at)]).axis(grid=True, ticks=False)
    x = alt.X("saved:Q", title="Share of the training time on one node").axis(format=".0%")
    legend = alt.Legend(
        direction="vertical",
        symbolOpacity=1,
        labelExpr=f"{PHONE} ? split(replace(datum.label, ' step', '|step'), '|') : datum.label",
    )
    colour, fill, shape = _told_by_kind(data, legend)
    marks = (
        alt.Chart(points)
        .mark_point(size=64, strokeWidth=2, opacity=1)
        .encode(
            x=x,
            y=y,
            color=colour,
            fill=fill,
            shape=shape,
            fillOpacity=hollow(),
            tooltip=tooltip(points, [str(name) for name in data.columns if name != "cell_id"]),
        )
    )
    apart = alt.Chart(points).mark_rule(strokeWidth=1.5, color=theme.NEUTRAL, opacity=0.6)
    apart = apart.encode(x=alt.X("min(saved):Q"), x2=alt.X2("max(saved):Q"), y=y)
    return [apart, marks]


@figure(
    "split",
    tables="curves cells published published_runs",
    rows=_rows.step_parts,
    axes=LINE,
    section="Where the time goes",
    order=40,
)
def step_split(rows: pd.DataFrame, of: dict[str, str]) -> Figure:
    """Draw the parts of a step, stacked, by batch and nodes (`queries.step_parts`)."""
    data = rows[["kind", *_POINT, "part", "seconds", *LAUNCHES]]
    told = ["kind", "part", *_POINT, "seconds", "repeats", "flags"]
    places: dict[str, alt.X | alt.XOffset] = {
        "x": _batch_axis(data),
        "xOffset": _node_offset(data, BAR_GAP),
    }
    bars = stacked(data, told, **places)
    step = data.groupby(["batch_per_worker", "nodes"])["seconds"].transform("sum")
    shares = data.assign(share=data["seconds"] / step)[data["part"] == "communicate"]
    return Figure(
        figure="split",
        of=of,
        finding=_findings.of_parts(rows),
        layers=[bars, *cautions(data, _POINT, **places), _node_numbers(data, BAR_GAP)],
        data=data,
        title="Where the time of a step goes",
        kinds=kinds_of(data),
        alt=(
            "The parts of a step, stacked: input, compute, wait, communicate, apply. "
            f"Share of communication. {in_words(shares, 'share', 'share')}"
        ),
        caption=(
            "Input is the wait for examples in the timed steps. The other parts come from separate "
            "split steps: the gradient (compute), waiting for other workers (wait), the exchange "
            "(communicate), the update of the weights (apply). An exchange that cannot be timed "
            "apart from computing counts as compute. A part is as long as its share of all split "
            "steps times the median split step (with parameter averaging, the mean); of several "
            "launches it is the median. Where a strategy was not run on one node, its bar there is "
            f"plain training in one process. {PALE}"
        ),
    )


@figure(
    "speedup",
    tables="curves cells published published_runs",
    rows=_rows.speedups,
    axes=LINE,
    section="Speed-up and efficiency",
    order=60,
)
def speedup(rows: pd.DataFrame, of: dict[str, str]) -> Figure:
    """Draw throughput against one node (`queries.speedups`)."""
    data = rows[["kind", *_POINT, "speedup", "examples_per_s", *_TIME, *LAUNCHES]]
    return Figure(
        figure="speedup",
        of=of,
        finding=_findings.of_speedups(rows),
        layers=_lines_over_nodes(data, _SPEEDUP.y(), _ideal_speedup(data)),
        data=data,
        title=_SPEEDUP.heading,
        kinds=kinds_of(data),
        alt=f"Throughput against one node. {in_words(data, 'speedup', '×')}",
        caption=(
            "Examples per second against one node at the same batch per worker. Dashed: ideal "
            f"scaling. Below 1, one node is faster. {HOLLOW}"
        ),
        views=(_SPEEDUP, _THROUGHPUT),
    )


@figure(
    "batches",
    tables="curves cells published published_runs",
    rows=_rows.speedups,
    axes=LINE,
    order=62,
)
def speedup_by_batch(rows: pd.DataFrame, of: dict[str, str]) -> Figure | None:
    """Draw throughput against one node over the batches, a line per number of nodes; not of one."""
    rows = rows[rows["nodes"] > 1].reset_index(drop=True)
    if rows["batch_per_worker"].nunique() < 2:
        return None
    data = rows[["kind", *_POINT, "speedup", "examples_per_s", *LAUNCHES]]
    counts = sorted(map(int, data["nodes"].unique()))
    batches = sorted(map(int, data["batch_per_worker"].unique()))
    nodes: dict[str, Any] = {
        "title": "Nodes",
        "scale": alt.Scale(domain=counts, range=theme.node_colours(counts)),
        "legend": {"symbolOpacity": 1, "columns": few(4, 6, 8)},
    }
    x = alt.X("batch_per_worker:Q", title="Batch per worker, log scale")
    x = x.scale(type="log", base=2, nice=False, padding=12).axis(values=batches, format="d")
    base = alt.Chart(inline(data)).encode(x=x, y=_BATCHES.y(), color=alt.Color("nodes:O", **nodes))
    even = alt.Chart(inline(data[["batch_per_worker", "nodes"]].assign(speedup=1)))
    return Figure(
        figure="batches",
        of=of,
        finding=_findings.of_batches(rows),
        layers=[
            even.mark_rule(strokeDash=[3, 4]).encode(y=_BATCHES.y()),
            base.mark_line(strokeWidth=1.8, opacity=0.75),
            base.mark_point(size=64, strokeWidth=2, opacity=1).encode(
                fill=alt.Fill("nodes:O", **nodes),
                shape=kind_shape(data),
                fillOpacity=alt.FillOpacityValue(1, condition={"test": "datum.flags", "value": 0}),
                tooltip=tooltip(data, [str(name) for name in data.columns if name not in _UNTOLD]),
            ),
        ],
        data=data,
        title=_BATCHES.heading,
        kinds=kinds_of(data),
        alt=f"Throughput against one node. {in_words(data, 'speedup', '×')}",
        caption=(
            "Examples per second against one node at the same batch per worker. Below the dashed "
            f"rule, one node is faster. {HOLLOW}"
        ),
        views=(_BATCHES,),
    )


def _ideal_speedup(data: pd.DataFrame) -> pd.DataFrame:
    """Return the ends of the ideal line of each batch: as many times one node as there are."""
    one = (data["examples_per_s"] / data["speedup"]).groupby(data["batch_per_worker"]).median()
    ends = pd.DataFrame({"nodes": [1, int(data["nodes"].max())]})
    lines = one.rename("one").reset_index().merge(ends, "cross")
    lines = lines.assign(speedup=lines["nodes"], examples_per_s=lines["nodes"] * lines["one"])
    return lines.drop(columns="one")


@figure(
    "efficiency",
    tables="curves cells published published_runs",
    rows=_rows.speedups,
    axes=LINE,
    section="Speed-up and efficiency",
    order=61,
)
def efficiency(rows: pd.DataFrame, of: dict[str, str]) -> Figure:
    """Draw speed-up ÷ nodes (`queries.speedups`)."""
    data = rows[["kind", *_POINT, "efficiency", *_TIME, *LAUNCHES]]
    ideal = pd.DataFrame({"nodes": [1, int(data["nodes"].max())], "efficiency": [1, 1]})
    y = alt.Y("efficiency:Q", title="Efficiency (speed-up ÷ nodes)").scale(zero=True)
    return Figure(
        figure="efficiency",
        of=of,
        finding=_findings.of_efficiencies(rows),
        layers=_lines_over_nodes(data, y, ideal),
        data=data,
        title="Efficiency by nodes",
        kinds=kinds_of(data),
        alt=f"Efficiency. {in_words(data, 'efficiency', 'share')}",
        caption=f"The share of the ideal speed-up that was reached. Dashed: all of it. {HOLLOW}",
    )


_EPOCHS: dict[str, Any] = {
    "tables": "cells epochs",
    "rows": queries.epochs,
    "axes": ["experiment", "model", "dataset", "kind"],
    "section": "Loss and accuracy by epoch",
}


@figure("loss-by-epoch", order=70, **_EPOCHS)
def loss_by_epoch(rows: pd.DataFrame, of: dict[str, str]) -> Figure:
    """Draw the training loss over the epochs."""
    return by_epoch(rows, of, "loss")


@figure("accuracy-by-epoch", order=71, **_EPOCHS)
def accuracy_by_epoch(rows: pd.DataFrame, of: dict[str, str]) -> Figure:
    """Draw the training accuracy over the epochs."""
    return by_epoch(rows, of, "accuracy")


def by_epoch(rows: pd.DataFrame, of: dict[str, str], value: str) -> Figure:
    """Draw training `loss` or `accuracy` (`value`) over the epochs (`queries.epochs`)."""
    names = ["strategy", "batch_per_worker", "nodes", "repeat", "epoch"]
    data = rows[["kind", *names, value, "cell_id"]]
    heading, title = f"Training {value} by epoch", f"Training {value}"
    views = (View("absolute", heading, value, title),) if value == "loss" else ()
    # neither is there a negative loss nor more than every example right
    ends: dict[str, Any] = {"domainMin": 0} if value == "loss" else {"domainMax": 1}
    shown, strategies = inline(data), sorted(data["strategy"].unique())
    dash = alt.StrokeDash("nodes:O", title="Nodes", legend=of_lines())
    colour, fill = batch_colour(data), batch_fill(data)
    if len(strategies) > len(theme.CATEGORIES):
        shown = shown.assign(
            label=data["strategy"].map(called) + " (" + data["nodes"].astype(str) + ")"
        )
        colour, fill, dash = _many_lines(sorted(shown["label"].unique()))
    elif len(strategies) > MOST_LINES:
        legend = alt.Legend(symbolOpacity=1, columns=few(1, 2, 4), labelExpr=calling(strategies))
        scale = alt.Scale(domain=strategies, range=theme.CATEGORIES[: len(strategies)])
        colour = alt.Color("strategy:N", title="Strategy", legend=legend, scale=scale)
        fill = alt.Fill("strategy:N", title="Strategy", legend=legend, scale=scale)
    base = alt.Chart(shown).encode(
        x=alt.X("epoch:Q", title="Epoch")
        .axis(values=whole(data["epoch"]), format="d")
        .scale(zero=False, nice=False, padding=12),
        y=alt.Y(f"{value}:Q", title=title).scale(zero=False, padding=10, **ends),
        color=colour,
        detail=alt.Detail(["strategy:N", "batch_per_worker:O", "repeat:N", "nodes:O"]),
    )
    lines = base.mark_line(strokeWidth=1.8).encode(strokeDash=dash)
    points = base.mark_point(size=30, opacity=1).encode(
        fill=fill, shape=kind_shape(data), tooltip=tooltip(data, ["kind", *names, value])
    )
    last = data[data["epoch"] == data["epoch"].max()]
    return Figure(
        figure=f"{value}-by-epoch",
        of=of,
        layers=[lines, points],
        data=data,
        title=heading,
        kinds=kinds_of(data),
        alt=f"Training {value}, after the last epoch. {in_words(last, value, 'accuracy')}",
        caption=f"The mean {value} over the epoch, taken while the weights were still moving.",
        views=views,
    )


def _many_lines(labels: list[str]) -> tuple[alt.Color, alt.Fill, alt.StrokeDash]:
    """Return how more lines than there are colours look: each colour again with other dashes."""
    colours, dashes = len(theme.CATEGORIES), len(theme.DASHES)
    looks = [(i % colours, i // colours % dashes) for i in range(len(labels))]
    title = "Strategy (nodes)"
    scale = alt.Scale(domain=labels, range=[theme.CATEGORIES[colour] for colour, _ in looks])
    stroke = alt.Scale(domain=labels, range=[theme.DASHES[dash] for _, dash in looks])
    legend = alt.Legend(
        symbolType="stroke", symbolSize=300, symbolStrokeWidth=2, columns=few(1, 2, 4)
    )
    return (
        alt.Color("label:N", title=title, scale=scale, legend=legend),
        alt.Fill("label:N", scale=scale, legend=None),
        alt.StrokeDash("label:N", title=title, scale=stroke, legend=legend),
    )


def batch_colour(data: pd.DataFrame) -> alt.Color:
    """Return the batches in `data` as stroke colours, one ramp from the smallest to the largest."""
    return alt.Color("batch_per_worker:O", **_of_batches(data))


def batch_fill(data: pd.DataFrame) -> alt.Fill:
    """Return `batch_colour` for the inside of points; the two share one legend."""
    return alt.Fill("batch_per_worker:O", **_of_batches(data))


def _of_batches(data: pd.DataFrame) -> dict[str, Any]:
    batches = sorted(int(batch) for batch in data["batch_per_worker"].unique())
    return {
        "title": "Batch per worker",
        "scale": alt.Scale(domain=batches, range=theme.batch_colours(batches)),
        "legend": {"symbolOpacity": 1, "columns": few(4, 6, 8)},
    }


def _batch_axis(data: pd.DataFrame) -> alt.X:
    batches = sorted(int(batch) for batch in data["batch_per_worker"].unique())
    return (
        alt.X("batch_per_worker:O", title="Nodes (batch per worker below)", sort=batches)
        .axis(labelAngle=0, labelPadding=19, ticks=False, labelFontSize=12, labelFontWeight=600)
        .scale(paddingInner=0.25, paddingOuter=0.12)
    )


def _node_offset(data: pd.DataFrame, gap: float | None = None) -> alt.XOffset:
    """Return the place of a node count within its batch; bars leave a `gap` between them."""
    inner = alt.Undefined if gap is None else gap
    nodes = sorted(int(count) for count in data["nodes"].unique())
    return alt.XOffset("nodes:O", sort=nodes).scale(paddingInner=inner)


def _node_numbers(data: pd.DataFrame, gap: float | None = None) -> alt.Chart:
    """Return the node counts as a second row of axis labels, above the batches.

    Where there is no room for all, it is the first and the last one of each batch.
    """
    points = data[["batch_per_worker", "nodes"]].drop_duplicates()
    ends = points.groupby("batch_per_worker")["nodes"].transform
    end = points["nodes"].eq(ends("min")) | points["nodes"].eq(ends("max"))
    room = 6 + 7 * len(str(points["nodes"].max()))  # pixels for one of them
    room *= points["batch_per_worker"].nunique() * points["nodes"].nunique()
    points = points.assign(end=end)
    text = alt.Chart(points).mark_text(
        baseline="top",
        dy=5,
        fontSize=12,
        opacity=alt.ExprRef(f"datum.end || width > {room} ? 1 : 0"),
    )
    numbers: alt.Chart = text.encode(
        x=_batch_axis(data),
        xOffset=_node_offset(data, gap),
        y=alt.value("height"),
        text=alt.Text("nodes:O"),
    )
    return numbers


def _nested_points(data: pd.DataFrame, y: alt.Y, *, intervals: bool = False) -> list[alt.Chart]:
    """Draw points over nodes within batch, a line per batch, kinds told by colour and shape.

    Lines of one kind that are of several clusters have a tone of the kind's colour each.
    """
    legend = alt.Legend(
        direction="vertical",
        symbolOpacity=1,
        labelExpr=(
            f"split(datum.label, {PHONE} ? regexp(': |, (?=generated)') : {HALF} ? ': ' : '|')"
        ),
        labelLimit=0,
    )
    data = _with_series(data)
    colour, fill, shape = _told_by_kind(data, legend, by="series")
    base = alt.Chart(inline(data)).encode(
        x=_batch_axis(data), xOffset=_node_offset(data), color=colour
    )
    lines = base.mark_line(strokeWidth=1.5, opacity=0.8).encode(
        y=y,
        strokeDash=alt.StrokeDash("dash:O", legend=None).scale(
            domain=[*range(len(theme.DASHES))], range=theme.DASHES
        ),
        detail=alt.Detail(["batch_per_worker:O", "line:N", "experiment:N"]),
    )
    names = [str(name) for name in data.columns if name not in _UNTOLD]
    points = base.mark_point(size=64, strokeWidth=2, opacity=1).encode(
        y=y,
        shape=shape,
        fill=fill,
        fillOpacity=hollow(),
        tooltip=tooltip(data, names),
    )
    layers = [lines, points, _node_numbers(data)]
    if intervals and data["low"].notna().any():
        measured = base.transform_filter("isValid(datum.low)")
        layers.insert(
            1, measured.mark_rule(strokeWidth=2).encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q"))
        )
    return layers


def _told_by_kind(
    data: pd.DataFrame, legend: alt.Legend, by: str = "kind"
) -> tuple[alt.Color, alt.Fill, alt.Shape]:
    """Return stroke, fill and shape of points of each kind; the three share `legend`.

    Where `by` is `series`, each series of a kind has a colour of its own, and the kind's shape.
    """
    names, kinds = _of_kinds(data, by)
    tones = [tone for kind in kinds_of(data) for tone in theme.kind_tones(kind, kinds.count(kind))]
    colours = alt.Scale(domain=names, range=tones)
    shapes = alt.Scale(domain=names, range=theme.kind_shapes(kinds))
    return (
        alt.Color(f"{by}:N", title=None, scale=colours, legend=legend),
        alt.Fill(f"{by}:N", title=None, scale=colours, legend=legend),
        alt.Shape(f"{by}:N", title=None, scale=shapes, legend=legend),
    )


def _of_kinds(data: pd.DataFrame, by: str) -> tuple[list[str], list[str]]:
    """Return the values of `by`, those of one kind together, and the kind of each."""
    named = [
        (name, kind)
        for kind in kinds_of(data)
        for name in sorted(data.loc[data["kind"] == kind, by].unique())
    ]
    return [name for name, _ in named], [kind for _, kind in named]


def _with_series(data: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with `series`, their kind and what tells their lines from others at a batch.

    `dash` is the place of a series among those of its kind.
    """
    lines = data[["kind", "batch_per_worker", "cluster", "line", "experiment"]].drop_duplicates()
    at = ["kind", "batch_per_worker"]
    choices = ([*names] for names in _TELLING if not lines.duplicated([*at, *names]).any())
    telling = next(choices, [*_TELLING[-1]])
    several = lines.groupby("kind")[telling].nunique() > 1
    named = [
        ": ".join(
            [kind, ", ".join(map(called, names))] if names and several.loc[kind].any() else [kind]
        )
        for kind, *names in data[["kind", *telling]].to_numpy()
    ]
    data = data.assign(series=named)
    ranks = data.groupby("kind")["series"].rank("dense").astype("int64") - 1
    return data.assign(dash=ranks % len(theme.DASHES))


def _lines_over_nodes(data: pd.DataFrame, y: alt.Y, ideal: pd.DataFrame) -> list[alt.Chart]:
    """Draw one line per batch over the nodes, and what would be ideal."""
    x = (
        alt.X("nodes:Q", title="Nodes")
        .axis(values=sorted(map(int, data["nodes"].unique())), format="d")
        .scale(zero=False, nice=False, padding=12)
    )
    base = alt.Chart(inline(data)).encode(x=x, y=y, color=batch_colour(data))
    guide = alt.Chart(inline(ideal))
    guide = guide.mark_line(strokeDash=[3, 4], strokeWidth=1.5, color=theme.NEUTRAL)
    of_batch = alt.Detail("batch_per_worker:O") if "batch_per_worker" in ideal else alt.Undefined
    return [
        guide.encode(x=x, y=y, detail=of_batch),
        base.mark_line(strokeWidth=1.8, opacity=0.75),
        base.mark_point(size=64, strokeWidth=2, opacity=1).encode(
            fill=batch_fill(data),
            shape=kind_shape(data),
            fillOpacity=hollow(),
            tooltip=tooltip(data, [str(name) for name in data.columns if name not in _UNTOLD]),
        ),
    ]


def _several_clusters(data: pd.DataFrame) -> str:
    """Say of which nodes the lines are, if not of equal ones."""
    clusters = [node_in_words(cluster) for cluster in sorted(set(data["cluster"]) - {""})]
    said = f" Our points have a line for each kind of node: {'; '.join(clusters)}."
    return said * (len(clusters) > 1)


def _several_machines(data: pd.DataFrame) -> str:
    """Say that several machines measured the points, if so: their times do not compare."""
    machines = sorted(set(data["machine"]) - {""})
    caption = (
        " Several machines measured these points; compare times only within one of them: "
        f"{'; '.join(machines)}."
    )
    return caption * (len(machines) > 1)


def _span(epochs: pd.Series) -> str:
    low, high = int(epochs.min()), int(epochs.max())
    return f"{low} to {high} epochs" if low < high else f"{low} epoch{'s' if low > 1 else ''}"

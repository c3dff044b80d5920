"""Draw the time and the accuracy of whole trainings, by batch and nodes."""

import altair as alt
import pandas as pd

from nodewise.core.cell import node_in_words
from nodewise.report import theme
from nodewise.report.figure import NOT_FROM_ZERO, Figure, View, inline
from nodewise.report.figures import _findings, _rows, figure
from nodewise.report.figures._encodings import (
    HALF,
    caution_key,
    hollow_if_flagged,
    kinds_of,
    label_expression,
    strategies_behind,
    strategy_titles,
    tooltip,
)
from nodewise.report.figures._nested_axes import batch_axis, node_numbers, node_offset
from nodewise.report.figures._panels import MOST_OF_ONE_COLOUR
from nodewise.report.figures._rows import MODEL
from nodewise.report.figures._series import Series, by_series
from nodewise.report.figures._words import values_in_words
from nodewise.results.published import PUBLISHED_STRATEGY
from nodewise.results.queries import LAUNCHES

_POINT = ["kind", "experiment", "cluster", "machine", "line", "batch_per_worker", "nodes"]
_LINE = ["cluster", "experiment", "line", "kind", "machine"]  # distinguish lines within a batch
_GROUPS = "Each group of points is one batch size, with its nodes counted below it."
_NOT_NAMED = ("experiment", "cell_id", "series")
# columns that may distinguish lines of one kind and batch, those with the shortest names first
_DISTINCTIONS = (
    (),
    ("cluster",),
    ("line",),
    ("cluster", "line"),
    ("experiment",),
    ("experiment", "line"),
)


@figure(
    "time",
    tables="curves cells published published_runs",
    rows=_rows.training_times,
    axes=MODEL,
    plots="Training time by batch and nodes",
    reading=(
        f"{_GROUPS} Vertical bars are the interval of the median over launches. Where a cell ran "
        "only some steps, its training time is its step time (median over launches) times the "
        "number of steps of the training. Times of emulated nodes are the node's own, as if it had "
        "a whole core. What a study published is dotted."
    ),
    lines=_LINE,
    most=MOST_OF_ONE_COLOUR,
    section="Training time",
    order=10,
)
def training_time(rows: pd.DataFrame) -> Figure:
    """Draw the training time by batch and nodes, our own and published."""
    data = rows.rename(columns={"low_seconds": "low", "high_seconds": "high"})
    data = data[[*_POINT, "epochs", "seconds", "low", "high", "speedup", *LAUNCHES]]
    time = f"Training time of {_epochs_in_words(data)}"
    view = View(f"{time} by batch and nodes", "seconds", f"{time} (s)", "log")
    y = view.y().axis(tickCount=6)
    return Figure(
        finding=_findings.describe_times(rows),
        layers=_nested_points(data, rows, y, ("low", "high")),
        data=data,
        title=view.heading,
        kinds=kinds_of(data),
        alt=f"{time}. {values_in_words(data, 'seconds', 's')}",
        caption=(_several_clusters(data) + _several_machines(data) + caution_key(data)).strip(),
    )


@figure(
    "accuracy",
    tables="curves cells epochs published published_runs",
    rows=_rows.accuracies,
    axes=MODEL,
    plots="Training accuracy by batch and nodes",
    reading=(
        f"{_GROUPS} Only cells that trained whole epochs have an accuracy. The batch is per "
        "worker: more nodes make fewer, larger steps of the same epoch. Points are the median over "
        "launches, vertical bars reach from the least to the most of them. What a study published "
        "is dotted."
    ),
    lines=_LINE,
    most=MOST_OF_ONE_COLOUR,
    section="Training accuracy",
    order=20,
)
def accuracy(rows: pd.DataFrame) -> Figure:
    """Draw the training accuracy by batch and nodes, our own and published."""
    data = rows[[*_POINT, "epochs", "accuracy", "least", "most", "test_accuracy", *LAUNCHES]]
    title = f"Training accuracy after {_epochs_in_words(data)}"
    y = alt.Y("accuracy:Q", title=f"{title}{NOT_FROM_ZERO}").scale(zero=False, padding=12)
    return Figure(
        finding=_findings.describe_accuracies(rows),
        layers=_nested_points(data, rows, y, ("least", "most")),
        data=data,
        title=f"{title} by batch and nodes",
        kinds=kinds_of(data),
        alt=f"{title}. {values_in_words(data, 'accuracy', 'accuracy')}",
        caption=(_several_clusters(data) + caution_key(data)).strip(),
    )


def _nested_points(
    data: pd.DataFrame, rows: pd.DataFrame, y: alt.Y, between: tuple[str, str]
) -> list[alt.Chart]:
    """Draw points by nodes within each batch, with a line per batch and series.

    Args:
        data: the columns to draw.
        rows: the rows that `data` was selected from, which have the titles of strategies.
        y: the vertical axis.
        between: the columns of the ends of the bars; points without values there have no bar.
    """
    low, high = between
    data = data.assign(series=_series_names(data, strategy_titles(rows)))
    series = _series(data, strategies_behind(rows))
    broken = label_expression({one.name: one.name for one in series})
    legend = alt.Legend(
        direction="vertical", labelExpr=f"{HALF} ? ({broken}) : datum.label", labelLimit=0
    )
    colour, fill, dash = by_series(series, legend)
    kinds = kinds_of(data)
    # The extra name keeps the domain different from that of the series. Vega-Lite would merge
    # legends with equal domains and show marks in the legend of lines.
    scale = alt.Scale(domain=[*kinds, ""], range=[*theme.kind_shapes(kinds), "circle"])
    base = alt.Chart(inline(data)).encode(
        x=batch_axis(data), xOffset=node_offset(data), color=colour
    )
    lines = base.mark_line(strokeWidth=1.5, opacity=0.8).encode(
        y=y,
        strokeDash=dash,
        detail=alt.Detail(["batch_per_worker:O", "line:N", "experiment:N", "machine:N"]),
    )
    points = base.mark_point(size=64, strokeWidth=2, opacity=1).encode(
        y=y,
        shape=alt.Shape("kind:N", scale=scale, legend=None),
        fill=fill,
        fillOpacity=hollow_if_flagged(),
        tooltip=tooltip(data, [str(name) for name in data.columns if name not in _NOT_NAMED]),
    )
    layers = [lines, points, node_numbers(data)]
    if data[low].notna().any():
        measured = base.transform_filter(f"isValid(datum.{low})")
        bars = measured.mark_rule(strokeWidth=2)
        layers.insert(1, bars.encode(y=alt.Y(f"{low}:Q"), y2=alt.Y2(f"{high}:Q")))
    return layers


def _series_names(data: pd.DataFrame, titles: dict[str, str]) -> list[str]:
    """Return the name of each row's series: its kind, and what distinguishes lines of that kind.

    Without lines to distinguish, it is the kind alone. If only one kind is shown, the name leaves
    the kind out. All lines of a series have the same strategy.
    """
    lines = data[["kind", "batch_per_worker", "cluster", "line", "experiment"]].drop_duplicates()
    distinct = _distinctions(lines)
    if not distinct:
        return data["kind"].tolist()
    several = lines.groupby("kind")[distinct].nunique().gt(1).any(axis=1)
    series = []
    for kind, *names in data[["kind", *distinct]].to_numpy():
        named = ", ".join(titles.get(name, name) for name in names)
        if not several[kind]:
            series.append(kind)
        else:
            series.append(f"{kind}: {named}" if len(several) > 1 else named)
    return series


def _distinctions(lines: pd.DataFrame) -> list[str]:
    """Return the fewest columns that distinguish lines of one kind at one batch.

    The strategy is one of them if a kind has several strategies.
    """
    strategies = lines.groupby("kind")["line"].nunique().max()
    for names in _DISTINCTIONS:
        alike = lines.duplicated(["kind", "batch_per_worker", *names]).any()
        if not alike and (strategies <= 1 or "line" in names):
            return [*names]
    return [*_DISTINCTIONS[-1]]


def _series(data: pd.DataFrame, behind: dict[str, str]) -> list[Series]:
    """Return the series in `data`, in the order of kinds.

    All published series have the same strategy, `PUBLISHED_STRATEGY`.
    """
    behind = {**behind, "published": PUBLISHED_STRATEGY}
    rows = data[["kind", "series", "line"]].drop_duplicates("series").sort_values("series")
    ordered = sorted(rows.to_numpy(), key=lambda row: kinds_of(data).index(row[0]))
    return [Series(name, behind[line], name, kind) for kind, name, line in ordered]


def _several_clusters(data: pd.DataFrame) -> str:
    """List the kinds of nodes that were measured, if there are several."""
    clusters = [node_in_words(cluster) for cluster in sorted(set(data["cluster"]) - {""})]
    if len(clusters) < 2:
        return ""
    return f" Our points have a line for each kind of node: {'; '.join(clusters)}."


def _several_machines(data: pd.DataFrame) -> str:
    """Warn that times of different machines cannot be compared, if there are several machines."""
    machines = sorted(set(data["machine"]) - {""})
    if len(machines) < 2:
        return ""
    return (
        " Several machines measured these points; compare times only within one of them: "
        f"{'; '.join(machines)}."
    )


def _epochs_in_words(data: pd.DataFrame) -> str:
    low, high = int(data["epochs"].min()), int(data["epochs"].max())
    return f"{low} to {high} epochs" if low < high else f"{low} epoch{'s' if low > 1 else ''}"

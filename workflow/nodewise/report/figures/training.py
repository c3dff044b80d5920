"""Figures of whole trainings: speed-up, time and accuracy by nodes."""

import pandas as pd

from nodewise.report import evidence
from nodewise.report.context import ReportContext
from nodewise.report.figure import Axis
from nodewise.report.figures import _rows, figure
from nodewise.results import queries
from nodewise.results.queries import LAUNCHES, TIMED_STEP

_NODES = Axis("nodes", "Nodes")
_SERIES = ["experiment", "kind", "cluster", "machine", "line", "batch_per_worker"]


def _beside_printed(title: str) -> list[str]:
    """Return a title with the batch, and with what a study printed where that is known."""
    title = f"{title}, at batch {{batch_per_worker}}"
    return [f"{title}; published: {{printed}} and {{printed_one}}", title]


@figure(
    "speedup",
    each=_rows.LINE,
    plots="Speed-up by nodes",
    x=_NODES,
    y=Axis("speedup", "Speed-up against one node", unit="×"),
    interval=("low", "high"),
    colour="batch_per_worker",
    guide="diagonal",
    title=[
        "{nodes} nodes are {speedup} as fast as one at batch {batch_per_worker}, "
        "{speedup_first} at batch {batch_per_worker_first}",
        "{nodes} nodes are {speedup} as fast as one at batch {batch_per_worker}",
    ],
    caption="Dashed: ideal scaling. Below 1, one node is faster.",
    reading=(
        "Examples per second against one node at the same batch per worker. Dashed is ideal "
        "scaling: n nodes are n times as fast as one. Below one, one node is faster. Only points "
        "that count as evidence have an interval."
    ),
)
def speedup(study: ReportContext) -> pd.DataFrame:
    """Return the speed-ups of experiments that no chart of strategies shows."""
    curves = study.tables["curves"]
    rows = _rows.without_short(curves, queries.speedups(curves))
    rows = _rows.with_evidence(study, rows)
    values = ["speedup", "low", "high", "efficiency", "examples_per_s", *TIMED_STEP]
    return rows[[*_rows.LINE, "batch_per_worker", "nodes", "machine", *values, *LAUNCHES, "lacks"]]


@figure(
    "time",
    each=queries.MODEL,
    plots="Training time by nodes",
    x=_NODES,
    y=Axis("seconds", "Training time (s)", "log", unit="s"),
    interval=("low_seconds", "high_seconds"),
    colour="series",
    facet="batch_per_worker",
    title=_beside_printed("Training takes {seconds} on {nodes} nodes, {seconds_one} on one"),
    rank=["nodes", "batch_per_worker"],
    units=dict.fromkeys(["seconds_one", "printed", "printed_one"], "s"),
    reading=(
        "A panel for each batch per worker. Where a cell ran only some steps, its training time is "
        "its step time (median over launches) times the number of steps of the training. Times of "
        "emulated nodes are the node's own, as if it had a whole core."
    ),
)
def time(study: ReportContext) -> pd.DataFrame:
    """Return training times, ours and published, without experiments that compare strategies."""
    tables = study.tables
    rows = _rows.without_short(tables["curves"], queries.training_times(tables))
    rows = _rows.with_evidence(study, rows)
    values = ["seconds", "low_seconds", "high_seconds", "speedup"]
    return _with_printed(study, rows, "seconds", values)


@figure(
    "accuracy",
    each=queries.MODEL,
    plots="Training accuracy by nodes",
    x=_NODES,
    y=Axis("accuracy", "Training accuracy", "accuracy", unit="accuracy"),
    interval=("least", "most"),
    interval_is="from the lowest to the highest launch",
    colour="series",
    facet="batch_per_worker",
    title=_beside_printed("{accuracy} training accuracy on {nodes} nodes, {accuracy_one} on one"),
    rank=["nodes", "batch_per_worker"],
    units=dict.fromkeys(["accuracy_one", "printed", "printed_one"], "accuracy"),
    reading=(
        "A panel for each batch per worker. Only cells that trained whole epochs have an accuracy. "
        "More nodes make fewer, larger steps of the same epoch. Points are the median over "
        "launches."
    ),
)
def accuracy(study: ReportContext) -> pd.DataFrame:
    """Return training accuracies, ours and published."""
    tables = study.tables
    rows = _rows.without_compared(tables["curves"], queries.accuracies(tables))
    one = rows.loc[rows["nodes"] == 1, [*_SERIES, "repeats", "cell_id"]].drop_duplicates(_SERIES)
    rows = rows.merge(one, "left", _SERIES, suffixes=("", "_one"))
    known = rows.fillna({"repeats": 0, "repeats_one": 0})  # published points do not state theirs
    rows = rows.assign(lacks=evidence.check_accuracies(known, tables, other="_one")["lacks"])
    return _with_printed(study, rows, "accuracy", ["accuracy", "least", "most", "test_accuracy"])


def _with_printed(
    study: ReportContext, rows: pd.DataFrame, value: str, values: list[str]
) -> pd.DataFrame:
    """Return the rows of a figure of ours and published points, with `series`.

    Rows also have the value on one node, `VALUE_one`, and what the study printed for both,
    `printed` and `printed_one`. What was published lacks evidence of ours.
    """
    same = [*queries.MODEL, *_SERIES]
    one = rows.loc[rows["nodes"] == 1, [*same, value]].drop_duplicates(same)
    rows = rows.merge(one.rename(columns={value: f"{value}_one"}), "left", same)
    theirs = rows["kind"] == "published"
    names = {value: "printed", f"{value}_one": "printed_one"}
    at = [*queries.MODEL, "batch_per_worker", "nodes"]
    rows = rows.merge(rows.loc[theirs, [*at, *names]].rename(columns=names), "left", at)
    lacks = rows["lacks"].where(~theirs, "evidence of ours").where(rows["nodes"] > 1, "nodes")
    ours = rows["kind"].where(theirs, "")
    for _, part in rows[~theirs].groupby(queries.MODEL):
        ours.update(_line_names(study, part).replace("", "measured here"))
    rows = rows.assign(series=ours, lacks=lacks)
    shown = ["series", "kind", "experiment", "cluster", "machine", "line"]
    shown += ["batch_per_worker", "nodes", "epochs", *values, *LAUNCHES, "lacks"]
    return rows[[*queries.MODEL, *shown, f"{value}_one", *names.values()]]


def _line_names(study: ReportContext, rows: pd.DataFrame) -> "pd.Series[str]":
    """Return the name of each row's line in words: its experiment and strategy, if they differ."""
    telling = [name for name in ("experiment", "line") if rows[name].nunique() > 1]
    words = study.with_titles(rows)[telling].to_numpy()
    return pd.Series(map(", ".join, words), rows.index, dtype="str")

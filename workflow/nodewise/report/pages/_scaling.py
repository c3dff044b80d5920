"""Find the points that say how far a model, a strategy or a curve scales."""

from typing import Any

import pandas as pd

from nodewise.report import evidence
from nodewise.report.charts import Chart
from nodewise.report.context import ReportContext
from nodewise.results.comparisons import sum_gradients

Point = dict[str, Any]

_LINE = ["experiment", "model", "dataset", "cluster", "machine", "label", "line"]


def extremes(rows: pd.DataFrame) -> list[Point]:
    """Return the points with the highest and the lowest speed-up, in this order.

    Only points that count as evidence are considered. One point is returned if there is only one,
    and none if there is none.
    """
    rows = evidence.select(rows).sort_values("speedup", ascending=False, kind="stable")
    return _ends(rows)


def largest_and_smallest_batch(rows: pd.DataFrame) -> list[Point]:
    """Return the points with the largest and the smallest batch on most nodes of one line.

    The line is the one with most points that count as evidence, or the fastest of several such
    lines. Strategies that sum all gradients in every step come first, as an example contributes
    less to training with the others.

    Returns:
        Two points, one if only one batch was measured, and none if no point counts.
    """
    rows = evidence.select(rows)
    lines = [line for _, line in rows.assign(sums=sum_gradients(rows)).groupby(_LINE)]
    if not lines:
        return []
    line = max(lines, key=lambda one: (one["sums"].all(), len(one), one["speedup"].max()))
    most = line[line["nodes"] == line["nodes"].max()]
    return _ends(most.sort_values("batch_per_worker", ascending=False))


def _ends(rows: pd.DataFrame) -> list[Point]:
    """Return the first and the last row, or the only one."""
    found = rows.iloc[[0, -1][: len(rows)]].to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in found]


def time_to_accuracy(study: ReportContext, point: Point) -> dict[str, Any] | None:
    """Return how long one node and the nodes of a point take to the target accuracy.

    The times are those that fits predict for the point's curve and batch, without scaling the
    learning rate. None if the curve has no such prediction.

    Returns:
        `target`, the accuracy; and the rows of the table `optima` on `one` node, on the `several`
        nodes of the point, and on the `fastest` number of nodes up to that of the point.
    """
    optima, at = study.fit_tables["optima"], ["experiment", "model", "strategy", "batch_per_worker"]
    same = (optima["job"] == "run") & (optima[at] == [point[one] for one in at]).all(axis=1)
    rows = optima[same & (optima["nodes"] <= point["nodes"])].drop_duplicates("nodes")
    runs: dict[int, Point] = {int(row["nodes"]): row for row in rows.to_dict("records")}
    targets = study.fit_tables["steps_to_accuracy"]
    targets = targets.loc[targets["model"] == point["model"], "target"].dropna()
    if targets.empty or not {1, point["nodes"]} <= set(runs):
        return None
    return {
        "target": targets.iloc[0],
        "one": runs[1],
        "several": runs[point["nodes"]],
        "fastest": min(runs.values(), key=lambda row: row["time"]),
    }


def first_figure(study: ReportContext, *names: str, **of: str) -> list[Chart]:
    """Return the first figure that is drawn of these data, in a list; empty if there is none.

    Names and `of` are as for `ReportContext.pick`, but `line` need not be an axis of the figure.
    """
    return [one for one in study.pick(*names, **of) if "line" in of or "line" not in one.of][:1]

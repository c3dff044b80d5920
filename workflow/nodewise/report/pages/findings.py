"""Make the findings page: seven questions, each answered in a sentence from the tables."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from nodewise.report import claims, evidence
from nodewise.report.charts import Chart
from nodewise.report.context import ReportContext
from nodewise.report.page import Page
from nodewise.report.pages import page
from nodewise.report.pages._scaling import first_figure
from nodewise.results import comparisons, queries
from nodewise.results.columns import CURVE_KEY
from nodewise.strategies import STRATEGIES

Answer = dict[str, Any]

# trainings with equal values in these columns went through the same weights
_TRAINING = ["model", "dataset", "batch_per_worker", "nodes", "epochs"]
_TRAINING += ["train_accuracy", "test_accuracy", "test_accuracy_other"]
# points with equal values in these columns differ in their strategy and number of nodes only
_ALIKE = ["backend", "batch_per_worker", "experiment", "model", "cluster", "machine"]
# points with equal values in these columns compare their strategies, or their batches
_SIDE_BY_SIDE = ["experiment", "model", "cluster", "label", "batch_per_worker", "nodes"]
_OVER_BATCHES = ["experiment", "model", "cluster", "line", "label", "nodes"]


@page("findings")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield the page. An answer is None if no comparison that it needs counts as evidence."""
    answers = {
        "nodes": _nodes(study),
        "batch": _batch(study),
        "strategy": _strategy(study),
        "backend": _backend(study),
        "accuracy": _accuracy(study),
        "slower": _slower(study),
        "energy": _energy(study),
    }
    yield Page("findings.html", "findings.md.j2", "Findings", {"answers": answers}, figures=True)


def _nodes(study: ReportContext) -> Answer | None:
    """Count the points at which several nodes are faster than one; find the best and the worst."""
    rows = evidence.select(study.compared).sort_values("speedup", kind="stable")
    if rows.empty:
        return None
    runs = study.fit_tables["optima"].query("job == 'run' and best_for.str.contains('fastest')")
    return {
        "points": len(rows),
        "faster": int((rows["speedup"] > 1).sum()),
        "best": _point(study, rows.iloc[-1]),
        "worst": _point(study, rows.iloc[0]),
        "runs": len(runs),
        "one_node": int((runs["nodes"] == 1).sum()),
    }


def _batch(study: ReportContext) -> Answer | None:
    """Compare the speed-ups of the line and number of nodes that has the most batches."""
    rows = evidence.select(study.compared)
    lines = [line for _, line in rows.groupby(_OVER_BATCHES) if len(line) > 1]
    if not lines:
        return None
    line = max(lines, key=lambda one: (len(one), one["nodes"].iloc[0]))
    line = line.sort_values("batch_per_worker")
    small, large = line.iloc[0], line.iloc[-1]
    return {
        "small": _point(study, small),
        "large": _point(study, large),
        "grows": line["speedup"].is_monotonic_increasing,
        "clear": bool(large["speedup_low"] > small["speedup_high"]),
        "figures": _figure(study, large, "speedup"),
    }


def _strategy(study: ReportContext) -> Answer | None:
    """Rank the strategies where most were compared; of several such, on the most nodes."""
    rows = queries.compared_strategies(study.tables["curves"]).rename(columns={"kind": "label"})
    rows = rows[(rows["nodes"] > 1) & ~comparisons.on_devices(rows)]
    rows = evidence.select(evidence.check_times(rows, study.tables))
    groups = [one for _, one in rows.groupby(_SIDE_BY_SIDE) if one["strategy"].nunique() > 1]
    if not groups:
        return None
    group = max(groups, key=lambda one: (one["strategy"].nunique(), one["nodes"].iloc[0]))
    group = group.sort_values("examples_per_s", ascending=False)
    whole = group[comparisons.sum_gradients(group)]
    return {
        "strategies": group["strategy"].nunique(),
        "best": _point(study, group.iloc[0]),
        "worst": _point(study, group.iloc[-1]),
        "as_fast": [study.strategy_title(name) for name in comparisons.not_slower(group)],
        "whole": [_point(study, row) for _, row in whole.head(1).iterrows()],
        "figures": _figure(study, group.iloc[0], "strategies"),
    }


def _backend(study: ReportContext) -> Answer | None:
    """Compare how much several nodes add to a step with each backend of Keras.

    Of each backend, it is the strategy that adds least to the step of one node.
    """
    rows = evidence.select(study.points)
    trained = study.cells.set_index("cell_id")["trained_with"]
    backends = [STRATEGIES[trained[cell]].backend for cell in rows["cell_id"]]
    rows = rows.assign(backend=backends)
    several = comparisons.sum_gradients(rows) & (rows["nodes"] > 1)
    one = rows[rows["nodes"] == 1].drop_duplicates(_ALIKE)[[*_ALIKE, "step_time_s"]]
    rows = rows[several].merge(one, "inner", _ALIKE, suffixes=("", "_one"))
    rows["added_s"] = rows["step_time_s"] - rows["step_time_s_one"]
    rows = rows.sort_values("added_s").drop_duplicates([*_ALIKE, "nodes"])
    groups = [of for _, of in rows.groupby(["nodes", *_ALIKE[1:]]) if len(of) > 1]
    if not groups:
        return None
    # the exchange weighs most in the steps of the smallest batch
    told = max(groups, key=lambda of: (of["nodes"].iloc[0], -of["batch_per_worker"].iloc[0]))
    return {
        "points": len(groups),
        "timed": bool((told["communicate_s"] > 0).all()),
        "first": sum(of["backend"].iloc[0] == told["backend"].iloc[0] for of in groups),
        "backends": [_point(study, row) for _, row in told.iterrows()],
    }


def _accuracy(study: ReportContext) -> Answer | None:
    """Count the trainings on several nodes that ended clearly less accurate than on one node."""
    counts = sorted({*study.tables["curves"]["nodes"]} - {1})
    if not counts:
        return None
    rows = claims.points("test_accuracy", study.tables, "nodes", [(n, 1) for n in counts])
    rows = evidence.select(rows[~comparisons.on_devices(rows)]).drop_duplicates(_TRAINING)
    change = rows["test_accuracy"] - rows["test_accuracy_other"]
    rows = rows.assign(change=change, by_chance=rows["high"] >= 1)
    rows = rows.sort_values(["by_chance", "change"], kind="stable")
    if rows.empty:
        return None
    of = {name: str(rows[name].iloc[0]) for name in ("model", "dataset")}
    return {
        "trainings": len(rows),
        "worse": int((~rows["by_chance"]).sum()),
        "largest": _point(study, rows.iloc[0]),
        "figures": first_figure(study, "accuracy", **of),
    }


def _slower(study: ReportContext) -> Answer | None:
    """Find the part of a step that takes most time, besides computing, where one node is faster."""
    rows = comparisons.parts(study.tables["curves"])
    rows = evidence.select(evidence.check_times(rows, study.tables, other="_one"))
    rows = rows[rows["speedup"] <= 1].sort_values("largest_share", kind="stable")
    if rows.empty:
        return None
    part = rows["largest"].mode().iloc[0]
    mine = rows[rows["largest"] == part]
    median = mine["largest_share"].median()
    typical = mine.iloc[(mine["largest_share"] - median).abs().argsort()]
    charts = (_figure(study, row, "parts") for _, row in typical.iterrows())
    return {
        "part": part,
        "share": median,
        "kind": mine["label"].mode().iloc[0],
        "points": len(rows),
        "of_part": len(mine),
        "figures": next(filter(None, charts), []),
    }


def _energy(study: ReportContext) -> Answer | None:
    """Return the energy of an example on several nodes, divided by that on one node."""
    cells = study.tables["cells"].query("status == 'ok' and steps > 0 and energy_j.notna()")
    each = (cells["energy_j"] / (cells["steps"] * cells["global_batch"])).astype("float64")
    each = each.groupby([cells[name] for name in CURVE_KEY]).transform("median")
    by_cell = dict(zip(cells["cell_id"], each, strict=True))
    metered = set(cells.loc[cells["energy_kind"] == "measured", "cell_id"])
    rows = evidence.select(study.compared)
    ratios = (rows["cell_id"].map(by_cell) / rows["cell_id_one"].map(by_cell)).dropna()
    if ratios.empty:
        return None
    both = rows.loc[ratios.index, ["cell_id", "cell_id_one"]].isin(metered).all(axis=None)
    kind = rows.loc[ratios.index, "label"].mode().iloc[0]
    return {"ratio": ratios.median(), "kind": kind, "points": len(ratios), "metered": both}


def _point(study: ReportContext, row: "pd.Series[Any]") -> Answer:
    """Return a point, with the titles of its model and strategy and the page of its curve."""
    return {**study.with_titles(row.to_frame().T).iloc[0]}


def _figure(study: ReportContext, row: "pd.Series[Any]", *names: str) -> list[Chart]:
    """Return the first figure of these names that shows a point, in a list; or an empty list."""
    of = {name: str(row[name]) for name in ("experiment", "model", "dataset")}
    return first_figure(study, *names, **of, line=str(row.get("line", row["strategy"])))

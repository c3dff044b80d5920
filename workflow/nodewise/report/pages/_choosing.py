"""Say which measured strategy is best for which goal, and the rule of thumb, for Your case."""

from typing import Any

import pandas as pd

from nodewise.core.cell import node_in_words
from nodewise.core.exchanges import exchanges_where
from nodewise.report import evidence
from nodewise.report.context import ReportContext
from nodewise.results import comparisons
from nodewise.results.queries import with_labels

_TRAINED = ["study", "experiment", "model", "dataset", "cluster", "label", "batch_per_worker"]


def context(study: ReportContext) -> dict[str, Any]:
    """Return the template variables about strategies: `goals` and `rule`."""
    speeds = comparisons.compared_points(study.tables["curves"])
    speeds = evidence.check_times(speeds, study.tables)
    trained = with_labels(study.tables["curves"].query("whole_epochs and test_accuracy.notna()"))
    trained = trained.assign(label=trained["accuracy_label"]).merge(
        study.cells[["cell_id", "epochs"]]
    )
    trained = evidence.check_accuracies(trained, study.tables)
    goals = {
        "Fastest": _best(study, speeds, comparisons.SIDE_BY_SIDE, "examples_per_s"),
        "Cheapest": _best(study, speeds, comparisons.SIDE_BY_SIDE, "node_s"),
        "Most accurate": _best(study, trained, _TRAINED, "test_accuracy"),
    }
    return {"goals": goals, "rule": _rule(study)}


def _best(
    study: ReportContext, rows: pd.DataFrame, alike: list[str], column: str
) -> dict[str, Any]:
    """Return the best strategy by a column where most were compared, or what evidence `lacks`."""
    group = comparisons.most_strategies(evidence.select(rows), alike)
    if group.empty:
        return {"lacks": evidence.needs(rows)}
    group = group.sort_values(column, kind="stable")
    best = group.iloc[0 if column == "node_s" else -1]
    return {
        "column": column,
        "value": best[column],
        "label": best["label"],
        "strategy": study.strategy_title(best["strategy"]),
        "page": study.curve_pages[best["cell_id"]],
        "where": f"{study.model_title(best['model'])}, batch {best['batch_per_worker']}, "
        f"{best['nodes']} nodes: {node_in_words(best['cluster'])}",
        "of": group["strategy"].nunique(),
    }


def _rule(study: ReportContext) -> tuple[int, int]:
    """Return how many points follow the rule that n nodes beat one if n > 1 + ratio, and all.

    The ratio is communicating ÷ computing: a step is longer by it, and trains n times as much.
    """
    rows = comparisons.parts(study.tables["curves"])
    rows = evidence.select(evidence.check_times(rows, study.tables, other="_one"))
    parallel = rows["exchange"].isin(exchanges_where(lambda exchange: exchange.data_parallel))
    rows = rows[parallel & (rows["ratio"] > 0)]
    right = (rows["speedup"] > 1) == (rows["nodes"] > 1 + rows["ratio"])
    return int(right.sum()), len(rows)

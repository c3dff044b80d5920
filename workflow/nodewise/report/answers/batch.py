"""Answer the question: Which batch?"""

from dataclasses import replace

import pandas as pd
from markupsafe import Markup

from nodewise.report import evidence
from nodewise.report.answers import answer
from nodewise.report.comparison_words import join_words
from nodewise.report.context import ReportContext
from nodewise.report.finding import PAYS, Finding, figures_of
from nodewise.report.html import between_launches, number, text
from nodewise.results import comparisons


@answer("batch", order=2)
def which_batch(study: ReportContext) -> Finding:
    """Compare the speed-ups at different batches, with all else equal.

    The answer is about the line and number of nodes with the most batches that count as evidence.
    """
    rows = comparisons.on_several_nodes(study.tables["curves"])
    rows = evidence.check_times(rows, study.tables, other="_one")
    at = comparisons.OVER_BATCHES
    rows = rows[rows.groupby(at)["batch_per_worker"].transform("nunique") > 1]
    asked = Finding("batch", "Which batch?", "curves", rows=rows, columns=PAYS)
    counting = evidence.select(rows)
    counting = counting[counting.groupby(at)["batch_per_worker"].transform("nunique") > 1]
    if counting.empty:
        return asked
    lines = [line.sort_values("batch_per_worker") for _, line in counting.groupby(at)]
    line = max(lines, key=lambda one: (len(one), one["nodes"].iloc[0]))
    small, large = line.iloc[0], line.iloc[-1]
    answer = Markup(
        "{}: for {}, the speed-up is {}{} at {} and {}{} at {} examples per worker. {}"
    ).format(
        text(_how_batch_matters(line)),
        study.point(large, batch=False),
        *(number(small["speedup"], "×", small["label"]), between_launches(small)),
        small["batch_per_worker"],
        *(number(large["speedup"], "×", large["label"]), between_launches(large)),
        large["batch_per_worker"],
        text(_batches_that_pay(line)),
    )
    limits = [
        text(
            "This is about throughput alone: a larger batch means fewer updates of the weights in "
            "an epoch."
        ),
    ]
    figures = figures_of(study, large, "speedup", "time")
    cells = [small["cell_id"], large["cell_id"]]
    return replace(asked, answer=answer, figures=figures, cells=cells, limits=limits)


def _how_batch_matters(line: pd.DataFrame) -> str:
    """Say whether larger batches are better, and whether the intervals make this clear.

    It is clear if the intervals of the smallest and the largest batch do not overlap.
    """
    small, large = line.iloc[0], line.iloc[-1]
    if not line["speedup"].is_monotonic_increasing:
        return "Larger batches are not always better for throughput"
    if large["speedup_low"] <= small["speedup_high"]:
        return "Larger batches are not clearly better for throughput"
    return "Larger batches are better for throughput"


def _batches_that_pay(line: pd.DataFrame) -> str:
    """Say at which batches several nodes are faster, and at which of them this is not clear."""

    def batches(rows: pd.DataFrame) -> str:
        return join_words(f"{batch:,}" for batch in rows["batch_per_worker"])

    pays = line[line["speedup"] > 1]
    if pays.empty:
        which = "none of them"
    else:
        which = "all of them" if len(pays) == len(line) else batches(pays)
    unclear = pays[pays["speedup_low"] <= 1]
    more = f"; at {batches(unclear)} the 90\u00a0% interval includes 1" if len(unclear) else ""
    return (
        f"Of the batches that count as evidence ({batches(line)}), several nodes are faster than "
        f"one at {which}{more}."
    )

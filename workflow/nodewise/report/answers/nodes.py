"""Answer the question: Does adding nodes pay off?"""

from dataclasses import replace

import pandas as pd
from markupsafe import Markup

from nodewise.core.units import counted
from nodewise.report import evidence
from nodewise.report.answers import answer
from nodewise.report.comparison_words import wide_intervals
from nodewise.report.context import ReportContext
from nodewise.report.finding import DEVICES, PAYS, Finding, figures_of
from nodewise.report.html import between_launches, number, text
from nodewise.results import comparisons


@answer("nodes", order=1)
def nodes_pay(study: ReportContext) -> Finding:
    """Compare each point on several nodes with its one node."""
    rows = comparisons.on_several_nodes(study.tables["curves"])
    rows = evidence.check_times(rows, study.tables, other="_one")
    asked = Finding("nodes", "Does adding nodes pay off?", "curves", rows=rows, columns=PAYS)
    counting = evidence.select(rows)
    if counting.empty:
        return asked
    best = counting.sort_values("speedup", kind="stable").iloc[-1]
    gains = counting[counting["speedup"] > 1]
    speed = number(best["speedup"], "×", best["label"]) + between_launches(best)
    answer = Markup(
        "The highest speed-up was {}: {}. On several nodes, training was faster than on one in {} "
        "of {}.{}"
    ).format(
        *(speed, study.point(best)),
        *(len(gains) or "none", text(counted(len(counting), "comparison")), _how_sure(gains)),
    )
    limits = [
        text(
            "The batch per worker is the same on any number of nodes: the global batch grows with "
            "them, and an epoch has fewer steps. What that costs in accuracy is another question."
        ),
        DEVICES,
        *wide_intervals(study, counting),
    ]
    shown = figures_of(study, best, "speedup", "strategies", "time")
    cells = [best["cell_id"], best["cell_id_one"]]
    return replace(asked, answer=answer, figures=shown, cells=cells, limits=limits)


def _how_sure(gains: pd.DataFrame) -> Markup:
    """Say at how many of the faster points the whole interval of the speed-up is above 1."""
    if gains.empty:
        return Markup("")
    clear = int((gains["speedup_low"] > 1).sum())
    unclear = len(gains) - clear
    clauses = [
        f"in {clear} of these the 90\u00a0% interval of the speed-up lies above 1"
        if clear
        else "in none of these does the 90\u00a0% interval of the speed-up lie above 1",
        f"in {unclear} it includes 1" if clear and unclear else "",
    ]
    return text(f" {'; '.join(filter(None, clauses)).capitalize()}.")

"""Answer the question: Which strategy?"""

from dataclasses import replace
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise.report import evidence
from nodewise.report.answers import answer
from nodewise.report.comparison_words import SIDE_BY_SIDE, fastest, most_compared, named
from nodewise.report.context import ReportContext
from nodewise.report.finding import DEVICES, Finding, figures_of
from nodewise.report.html import text
from nodewise.report.tables import EVIDENCE, POINT, RATE
from nodewise.results import comparisons

_RATES = [*POINT, *RATE, *EVIDENCE]


@answer("strategy", order=3)
def which_strategy(study: ReportContext) -> Finding:
    """Compare the throughput of strategies with the same model, batch and nodes.

    The answer is about the points at which most strategies are compared.
    """
    rows = comparisons.compared_points(study.tables["curves"])
    rows = comparisons.with_rate_intervals(evidence.check_times(rows, study.tables))
    asked = Finding("strategy", "Which strategy?", "curves", rows=rows, columns=_RATES)
    group = most_compared(rows)
    if group is None:
        return asked
    group = group.sort_values("examples_per_s", ascending=False)
    best, last = group.iloc[0], group.iloc[-1]
    answer = Markup("Of {} strategies for {} on {} nodes, {}.{}").format(
        *(group["strategy"].nunique(), text(study.model_title(best["model"])), best["nodes"]),
        fastest(study, group),
        _first_of_whole_gradients(study, group),
    )
    devices = _devices_beside(study, best)
    limits = [
        text(
            "Throughput counts examples, not progress: asynchronous, averaging and compressing "
            "strategies take other steps than one node would, and may need more of them."
        ),
        text(
            "The order holds for this model, batch and link: a larger model has more to exchange "
            "and more to compute."
        ),
        devices or DEVICES,
    ]
    figures = figures_of(study, best, "strategies", "parts")
    cells = [best["cell_id"], last["cell_id"]]
    compared = rows[(rows[SIDE_BY_SIDE] == best[SIDE_BY_SIDE]).all(axis=1)]
    return replace(
        asked,
        answer=answer,
        rows=compared.sort_values("examples_per_s", ascending=False),
        figures=figures,
        cells=cells,
        limits=limits,
    )


def _first_of_whole_gradients(study: ReportContext, group: pd.DataFrame) -> Markup:
    """Say which strategy is the fastest of those that sum all gradients in every step.

    Empty if there is none, or if the fastest of all is one of them. `group` is sorted, the fastest
    strategy first.
    """
    whole = comparisons.sum_gradients(group)
    if not whole.any() or whole.iloc[0]:
        return Markup("")
    sentence = Markup(" Of those that sum all gradients in every step, {}.")
    return sentence.format(fastest(study, group[whole]))


def _devices_beside(study: ReportContext, point: "pd.Series[Any]") -> Markup | None:
    """Say which strategies of a point's experiment are not ranked as they train on devices.

    None if there are no such strategies.
    """
    curves = study.tables["curves"]
    devices = comparisons.on_devices(curves)
    at = ["experiment", "model", "cluster", "batch_per_worker"]
    beside = curves[devices & (curves[at] == point[at]).all(axis=1)]
    if beside.empty:
        return None
    names = list(dict.fromkeys(beside["strategy"]))
    verb = "trains" if len(names) == 1 else "train"
    not_ranked = "it is" if len(names) == 1 else "they are"
    return text(
        f"{named(study, names)} {verb} on devices of one process, without a network: "
        f"{not_ranked} in the figure, but not ranked."
    )

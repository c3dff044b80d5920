"""Answer the question: What does it cost in energy?"""

from dataclasses import replace

from markupsafe import Markup

from nodewise.core.units import counted
from nodewise.report import evidence
from nodewise.report.answers import answer
from nodewise.report.comparison_words import kind_of
from nodewise.report.context import ReportContext
from nodewise.report.finding import Finding
from nodewise.report.html import badge, number, text
from nodewise.report.tables import EVIDENCE, POINT, Column
from nodewise.results import comparisons

_ENERGY = [
    *POINT,
    Column("energy_one_j", "1,000 examples on one node", "J", kind_from="label"),
    Column("energy_j", "1,000 examples", "J", kind_from="label"),
    Column("ratio", "Against one node", "×", kind_from="label"),
    *EVIDENCE,
]


@answer("energy", order=6)
def energy_cost(study: ReportContext) -> Finding:
    """Compare the energy of a thousand examples on several nodes with that on one node."""
    rows = evidence.check_times(comparisons.energies(study.tables), study.tables, other="_one")
    asked = Finding("energy", "What does it cost in energy?", "cells", rows=rows, columns=_ENERGY)
    counting = evidence.select(rows)
    if counting.empty:
        return asked
    ranked = counting.sort_values("ratio", kind="stable")
    least, most = ranked.iloc[0], ranked.iloc[-1]
    more, compared = int((counting["ratio"] > 1).sum()), counted(len(counting), "comparison")
    answer = Markup(
        "In {} an example took more energy on several nodes than on one. The median ratio is {}; "
        "it ranges from {} ({}) to {} ({})."
    ).format(
        text(f"all {compared}" if more == len(counting) > 1 else f"{more} of {compared}"),
        number(counting["ratio"].median(), "×", kind_of(counting)),
        number(least["ratio"], "×", least["label"]),
        study.point(least),
        number(most["ratio"], "×", most["label"]),
        study.point(most),
    )
    limits = [
        text(
            "This is about training steps alone: starting up and evaluating are left out. Values "
            "are medians over launches, without an interval."
        )
    ]
    if (counting["label"] == "estimated").any():
        limits.append(
            Markup(
                "Without a meter it is {}: CPU time × {:g} W per busy core. The power of idle "
                "cores, memory and network is left out."
            ).format(badge("estimated"), study.config.watts_per_core)
        )
    cells = [least["cell_id"], most["cell_id"]]
    return replace(asked, answer=answer, cells=cells, limits=limits)

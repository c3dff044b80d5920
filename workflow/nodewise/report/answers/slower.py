"""Answer the question: Why was it slower?"""

from dataclasses import replace

from markupsafe import Markup

from nodewise.core.units import counted
from nodewise.report import evidence
from nodewise.report.answers import answer
from nodewise.report.comparison_words import kind_of
from nodewise.report.context import ReportContext
from nodewise.report.finding import Finding, figures_of
from nodewise.report.html import number, text
from nodewise.report.tables import EVIDENCE, POINT, Column
from nodewise.results import comparisons

_PART = {
    "input": "waiting for examples",
    "wait": "waiting for other workers",
    "communicate": "communication",
    "apply": "updating the weights",
}
_PARTS = [
    *POINT,
    Column("compute_share", "Computing", "share", kind_from="label"),
    *(
        Column(f"{part}_share", words.capitalize(), "share", kind_from="label")
        for part, words in _PART.items()
    ),
    *EVIDENCE,
]


@answer("slower", order=5)
def why_slower(study: ReportContext) -> Finding:
    """Find the part of a step that takes most time where several nodes were not faster than one.

    Computing is not considered. The figure shows the point with the median share of that part.
    """
    tables, curves = study.tables, study.tables["curves"]
    rows = evidence.check_times(comparisons.parts(curves), tables, other="_one")
    asked = Finding("slower", "Why was it slower?", "curves", rows=rows, columns=_PARTS)
    if evidence.select(rows).empty:
        return asked
    counting = evidence.select(rows[rows["speedup"] <= 1])
    if counting.empty:
        answer = Markup(
            "It was not: at every point whose parts can be trusted, several nodes trained faster "
            "than one."
        )
        return replace(asked, answer=answer)
    counts = counting["largest"].value_counts()
    part = counts.index[0]
    of_part = counting[counting["largest"] == part]
    several = comparisons.on_several_nodes(curves)
    several = evidence.select(evidence.check_times(several, tables, other="_one"))
    untold = int((several["speedup"] <= 1).sum()) - len(counting)
    answer = Markup(
        "{} was the largest part besides computing at {} of {} on several nodes that were not "
        "faster than one: it took {} of the step in the median, computing {}.{}"
    ).format(
        *(text(_PART[part].capitalize()), len(of_part), text(counted(len(counting), "point"))),
        number(of_part["largest_share"].median(), "share", kind_of(of_part)),
        number(of_part["compute_share"].median(), "share", kind_of(of_part)),
        text(f" At {untold} more, the parts are unknown or not trusted." if untold else ""),
    )
    middle = of_part.sort_values("largest_share", kind="stable").iloc[len(of_part) // 2]
    figures = figures_of(study, middle, "parts")
    limits = [
        text(
            "Parts are not trusted where they add up to far more than the step, nor where steps "
            "are as short as a node's turn on the core: the table says which."
        ),
        text(
            "Split steps run their parts one after the other; a step that overlaps them is shorter "
            "than their sum."
        ),
        text("Strategies that exchange within the computation itself show that time as computing."),
    ]
    if figures:
        sentence = Markup("The figure has the point with the median share: {}.")
        limits.append(sentence.format(study.point(middle)))
    cells = [middle["cell_id"], middle["cell_id_one"]]
    return replace(asked, answer=answer, figures=figures, cells=cells, limits=limits)

"""Make the page of changes beyond noise between two runs."""

from collections.abc import Iterator

from nodewise.report.context import ReportContext
from nodewise.report.page import Page
from nodewise.report.pages import page
from nodewise.report.tables import BATCH, EXPERIMENT, KIND, MODEL, NODES, STRATEGY, Column, table
from nodewise.results.compare_runs import LEVEL, NO_CHANGE
from nodewise.results.queries import with_labels

_COLUMNS = [
    MODEL,
    EXPERIMENT,
    STRATEGY,
    Column("cluster", "Node", wide=True),
    BATCH,
    NODES,
    Column("verdict", "Verdict"),
    Column("old_s", "Old step time", "s", kind_from="label"),
    Column("new_s", "New step time", "s", kind_from="label"),
    Column("ratio", "New ÷ old", "×", kind_from="label", low="low", high="high"),
    Column("old_launches", "Old launches"),
    Column("new_launches", "New launches"),
    KIND,
]


@page("changes")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield the page; if no runs were compared, it says how to compare two."""
    # step times do not depend on the weights that training begins with
    rows = study.with_titles(with_labels(study.changes.assign(weights="")))
    moved = rows[rows["verdict"] != NO_CHANGE]
    in_both = rows[rows["ratio"].notna()]
    context = {
        "runs": study.config.changes,
        "ratios": in_both["ratio"],
        "machine": in_both[["old_reference_s", "new_reference_s"]].median(),
        "kinds": sorted(in_both["label"].unique()),
        "counts": rows["verdict"].value_counts().to_dict(),
        "noise_known": bool(in_both["low"].notna().any()),
        "level": f"{100 * LEVEL:g}",
        "moved": table(moved, _COLUMNS) if len(moved) else None,
    }
    yield Page("changes.html", "changes.md.j2", "Changes between runs", context, contents=False)

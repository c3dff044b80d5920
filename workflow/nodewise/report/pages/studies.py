"""Make the pages of published studies that are repeated: one for each, and the list of them.

Studies are data (`nodewise.results.studies`), so all pages have one template.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise.report import evidence
from nodewise.report.claims import VERDICTS, Judged, claims_tables, value, verdict
from nodewise.report.context import ReportContext
from nodewise.report.html import badge, data, text
from nodewise.report.page import Page
from nodewise.report.pages import page
from nodewise.report.scoreboard import scoreboard, summary
from nodewise.report.tables import (
    AGAINST_ONE,
    BATCH,
    BYTES_SENT,
    FLAGS,
    KIND,
    MODEL,
    NODE,
    NODES,
    STRATEGY,
    Column,
    Table,
    table,
)
from nodewise.results import published, studies
from nodewise.results.columns import CURVE_KEY

_PRINTED = [
    Column("row", "Training"),
    STRATEGY,
    Column("printed_name", "In the study"),
    NODES,
    Column("seconds_published", "Time", "s", "published"),
    Column("seconds_ours", "Our time", "s", kind_from="label"),
    Column("ratio", "Ours ÷ published", "×", kind_from="label"),
    Column("order", "Order"),
    Column("speedup_published", "Speed-up", "×", "published"),
    Column("speedup_ours", "Our speed-up", "×", kind_from="label"),
    Column("accuracy_published", "Accuracy", "accuracy", "published"),
    Column("accuracy_ours", "Our accuracy", "accuracy", kind_from="accuracy_label"),
    Column("label", "Kind"),
    Column("accuracy_label", "Kind of our accuracy"),
    FLAGS,
]
_MODELS = [
    MODEL,
    Column("epochs", "Epochs", "", "published"),
    Column("batches", "Batches per worker"),
    Column("training_examples", "Training examples", "", "published"),
    Column("trainable_weights", "Trainable parameters", "", "published"),
    Column("trainable", "Ours", "", "counted"),
    Column("total_weights", "All parameters", "", "published"),
    Column("total", "Ours", "", "counted"),
]
_OURS = [
    MODEL,
    STRATEGY,
    BATCH,
    NODES,
    AGAINST_ONE,
    BYTES_SENT,
    Column("mean", "Staleness", "mean", kind_from="label"),
    Column("test_accuracy", "Test accuracy", "accuracy", kind_from="accuracy_label"),
    Column("accuracy_label", "Kind of accuracy"),
    KIND,
    NODE,
]
_COUNTS = [
    Column("study", "Study", wide=True),
    Column("says", "What it claims", wide=True),
    *(Column(name, name.capitalize()) for name in VERDICTS),
    Column("measured", "Published numbers that we measured"),
]


@page("studies")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield a page per published study, and the page that lists them."""
    rows, listed = scoreboard(study), []
    for name, about in studies.studies().items():
        mine = rows[rows["study"] == name]
        claims = [one for one in study.claims if one.study == name]
        link = Markup('<a href="{}.html">{}</a>').format(name, text(about.title))
        known, printed = (int(mine[number].notna().sum()) for number in ("ratio", "printed"))
        measured = f"{known} of {printed}" if printed else "none is published"
        counts = dict.fromkeys(VERDICTS, 0) | Counter(one.verdict for one in claims)
        listed.append({"study": link, "says": about.says, "measured": measured, **counts})
        context = _context(study, name, about, mine, claims)
        yield Page(
            f"studies/{name}.html", "studies/study.md.j2", about.title, context, figures=True
        )
    context = {
        "studies": table(listed, _COUNTS),
        "verdicts": [sum(one.verdict == word for one in study.claims) for word in VERDICTS],
        **claims_tables(study.claims),
    }
    yield Page("studies/index.html", "studies/index.md.j2", "Studies", context, contents=False)


def _context(
    study: ReportContext,
    name: str,
    about: studies.Study,
    rows: pd.DataFrame,
    claims: Sequence[Judged],
) -> dict[str, Any]:
    printed = rows.assign(order=rows["order"].map(verdict))
    filled = printed.replace("", pd.NA).notna().any()
    unused = "speedup" if about.scoreboard == "time" else "ratio"
    columns = [one for one in _PRINTED if filled[one.name] and not one.name.startswith(unused)]
    ours = set(study.cells.loc[study.cells["study"] == name, "experiment"])
    times, charts = study.pick("time", study=name), study.pick("strategies", "speedup", "parts")
    experiments = [one for one in charts if one.of.get("experiment") in ours]
    figures = times or experiments[:1]
    if not any(one.finding for one in times):  # what counts as evidence comes first
        figures = [one for one in experiments if one.finding][:1] or figures
    return {
        "name": name,
        "about": about,
        "lead": _lead(about, rows, claims),
        "lacking": int((rows["ratio"].notna() & (rows["lacks"] != "")).sum()),
        "scoreboard": study.pick("scoreboard", study=name),
        "figures": figures,
        "accuracy": study.pick("accuracy", study=name),
        "experiments": [one for one in [*times, *experiments] if one not in figures],
        "printed": table(study.with_titles(printed), columns) if len(rows) else None,
        "ours": None if len(rows) else _ours(study, name),
        "models": _models(study, name),
        **claims_tables(claims),
    }


def _lead(about: studies.Study, rows: pd.DataFrame, claims: Sequence[Judged]) -> Markup | None:
    """Return the study's lead with its numbers, or None if one of them is not known.

    In the lead, `{kind}` stands for the kinds of our numbers.
    """
    numbers: dict[str | None, Markup] = {
        name: text(number) if isinstance(number, int) else data(number, "mean")
        for name, number in summary(rows).items()
    }
    numbers |= {one.claim.name: value(one) for one in claims if len(one.counting)}
    parts = re.split(r"\{(\w+)\}", about.lead)
    if not about.lead or not set(parts[1::2]) <= {*numbers, "kind"}:
        return None
    of_claims = [one.counting["label"] for one in claims if one.claim.name in parts]
    labels = pd.concat([rows.loc[rows["ratio"].notna(), "label"], *of_claims]).unique()
    numbers["kind"] = Markup(" ").join(map(badge, labels))
    parts[1::2] = [numbers[name] for name in parts[1::2]]
    return Markup("").join(map(text, parts))


def _models(study: ReportContext, name: str) -> Table | None:
    """Return the printed models, with the parameters of our own models if they are described."""
    rows = published.of_studies("models")
    rows = rows[rows["study"] == name]
    described = study.architectures
    counts = {
        count: rows["model"].map({model: getattr(one, count) for model, one in described.items()})
        for count in ("trainable", "total")
    }
    batches = rows["initial_batch_sizes"].str.replace(";", ", ")
    rows = study.with_titles(rows).assign(batches=batches, **counts)
    return table(rows, _MODELS) if len(rows) else None


def _ours(study: ReportContext, name: str) -> Table | None:
    """Return our points that count as evidence, of a study that prints none; None without any."""
    rows = evidence.select(study.compared[study.compared["study"] == name])
    rows = rows.drop_duplicates(CURVE_KEY)
    noted = study.tables["observations"]
    stale = noted.loc[noted["observation"] == "staleness", ["cell_id", "mean"]]
    rows = rows.merge(stale, "left", "cell_id").sort_values(["model", "nodes", "strategy"])
    rows["test_accuracy"] = rows["test_accuracy"].where(rows["whole_epochs"])
    return table(study.with_titles(rows), _OURS) if len(rows) else None

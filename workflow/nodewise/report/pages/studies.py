"""Make the pages of published studies that are repeated: one for each, and the list of them.

Studies are data (`nodewise.results.published`), so all pages have one template.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise.core.exchanges import EXCHANGES
from nodewise.report.claims import VERDICTS, Judged
from nodewise.report.claims_table import claims_table, open_claims, value, verdict
from nodewise.report.context import ReportContext
from nodewise.report.html import data, text
from nodewise.report.page import Page
from nodewise.report.pages import page
from nodewise.report.scoreboard import scoreboard, summary
from nodewise.report.tables import (
    AGAINST_ONE,
    CAUTION,
    EXAMPLES,
    FLAGS,
    MODEL,
    NODES,
    POINT,
    STRATEGY,
    Column,
    Table,
    table,
)
from nodewise.results import comparisons, published, studies
from nodewise.results.columns import CURVE_KEY
from nodewise.results.queries import with_labels

_FIGURES = ("scoreboard", "time", "accuracy", "savings")
_OF_EXPERIMENTS = ("strategies", "parts", "speedup", "epochs")
_PRINTED = [
    Column("row", "Training"),
    STRATEGY,
    Column("printed_name", "In the study"),
    NODES,
    Column("seconds_published", "Time", "s", "published"),
    Column("seconds_ours", "Our time", "s", kind_from="label"),
    Column("ratio", "Ours ÷ printed", "×", kind_from="label"),
    Column("order", "Order of our times"),
    Column("speedup_published", "Speed-up", "×", "published"),
    Column("speedup_ours", "Our speed-up", "×", kind_from="label"),
    Column("accuracy_published", "Accuracy", "accuracy", "published"),
    Column("accuracy_ours", "Our accuracy", "accuracy", kind_from="accuracy_label"),
    Column("label", "Kind of ours"),
    Column("accuracy_label", "Kind of our accuracy"),
    Column("experiment", "Our experiment"),
    Column("machine", "Our machine"),
    FLAGS,
]
_MODELS = [
    MODEL,
    Column("dataset", "Dataset"),
    Column("input_shape", "Input"),
    Column("training_examples", "Training examples", "", "published"),
    Column("epochs", "Epochs", "", "published"),
    Column("batches", "Batches per worker"),
    Column("trainable_weights", "Trainable parameters", "", "published"),
    Column("trainable", "Ours", "", "counted"),
    Column("total_weights", "All parameters", "", "published"),
    Column("total", "Ours", "", "counted"),
]
_OURS = [
    *POINT,
    Column("setting", "Setting", wide=True),
    EXAMPLES,
    AGAINST_ONE,
    Column("bytes_sent_per_step", "Sent by a worker in a step", "B", kind_from="label"),
    Column("mean", "Mean staleness", "mean", kind_from="label"),
    Column("test_accuracy", "Test accuracy", "accuracy", kind_from="accuracy_label"),
    Column("accuracy_label", "Kind of accuracy"),
    *CAUTION,
]
_COUNTS = [
    Column("study", "Study", wide=True),
    Column("says", "What it claims", wide=True),
    *(Column(name, name.capitalize()) for name in VERDICTS),
    Column("measured", "Printed numbers that we measured"),
]


@page("studies")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield a page per published study, and the page that lists them."""
    rows = scoreboard(study)
    listed = []
    for name, about in studies.studies().items():
        mine = rows[rows["study"] == name]
        claims = [one for one in study.claims if one.study == name]
        link = Markup('<a href="{}.html">{}</a>').format(name, text(about.title))
        measured = f"{mine['ratio'].notna().sum()} of {mine['printed'].notna().sum()}"
        counts = dict.fromkeys(VERDICTS, 0) | Counter(one.verdict for one in claims)
        listed.append(
            {
                "study": link,
                "says": about.says,
                "measured": measured if len(mine) else "none printed",
                **counts,
            }
        )
        context = _context(study, name, about, mine, claims)
        path = f"studies/{name}.html"
        yield Page(path, "studies/study.md.j2", about.title, context, figures=True)
    context = {
        "studies": table(listed, _COUNTS),
        "verdicts": Counter(one.verdict for one in study.claims),
        "claims": len(study.claims),
        "decided": claims_table(study.claims),
        "open": open_claims(study.claims),
    }
    yield Page("studies/index.html", "studies/index.md.j2", "Studies", context, contents=False)


def _context(
    study: ReportContext,
    name: str,
    about: studies.Study,
    rows: pd.DataFrame,
    claims: list[Judged],
) -> dict[str, Any]:
    printed = rows.assign(machine=study.processors(rows), order=rows["order"].map(verdict))
    return {
        "about": about,
        "name": name,
        "lead": _lead(about, rows, claims),
        "lacking": int((rows["ratio"].notna() & (rows["lacks"] != "")).sum()),
        "claims": claims_table(claims),
        "open": open_claims(claims),
        "figures": study.pick(*_FIGURES, study=name),
        "of_experiments": study.pick_of_study(name, *_OF_EXPERIMENTS),
        "printed": table(study.with_titles(printed), _known(printed, _PRINTED))
        if len(rows)
        else None,
        "models": _models(study, name),
        "ours": None if len(rows) else _ours(study, name),
    }


def _lead(about: studies.Study, rows: pd.DataFrame, claims: list[Judged]) -> Markup | None:
    """Return the study's lead with its numbers, or None if one of them is not known."""
    numbers = (
        {
            name: text(number) if isinstance(number, int) else data(number, "mean")
            for name, number in summary(rows).items()
        }
        if len(rows)
        else {}
    )
    numbers |= {
        one.claim.name: value(one) for one in claims if one.claim.name and len(one.counting)
    }
    parts = re.split(r"\{(\w+)\}", about.lead)
    if not set(parts[1::2]) <= numbers.keys() or (len(rows) and not rows["ratio"].notna().any()):
        return None
    parts[1::2] = [numbers[name] for name in parts[1::2]]
    return Markup("").join(map(text, parts))


def _known(rows: pd.DataFrame, columns: list[Column]) -> list[Column]:
    """Return the columns that have a value in some row."""
    filled = rows.replace("", pd.NA).notna().any()
    return [column for column in columns if filled[column.name]]


def _models(study: ReportContext, name: str) -> Table | None:
    """Return the printed models, with the parameters of our own models if they are described."""
    rows = published.of_studies("models")
    rows = rows[rows["study"] == name]
    if rows.empty:
        return None
    described = study.architectures
    counts = {
        count: rows["model"].map({model: getattr(one, count) for model, one in described.items()})
        for count in ("trainable", "total")
    }
    rows = study.with_titles(rows).assign(
        dataset=rows["dataset"].map(study.dataset_title),
        batches=rows["initial_batch_sizes"].str.replace(";", ", "),
        **counts,
    )
    return table(rows, _MODELS)


def _ours(study: ReportContext, name: str) -> Table | None:
    """Return our points on several nodes of a study that prints no numbers; None without any."""
    curves = study.tables["curves"]
    rows = with_labels(curves[(curves["study"] == name) & (curves["nodes"] > 1)])
    if rows.empty:
        return None
    beside = comparisons.on_several_nodes(curves).drop_duplicates(CURVE_KEY)
    rows = rows.merge(beside[[*CURVE_KEY, "speedup_low", "speedup_high"]], "left", CURVE_KEY)
    noted = study.tables["observations"]
    stale = noted.loc[noted["observation"] == "staleness", ["cell_id", "mean"]]
    rows = rows.merge(stale, "left", "cell_id").sort_values(["model", "nodes", "strategy"])
    rows["test_accuracy"] = rows["test_accuracy"].where(rows["whole_epochs"])
    rows["setting"] = [
        EXCHANGES[exchange].setting(json.loads(options or "{}"))
        for exchange, options in rows[["exchange", "options"]].to_numpy()
    ]
    return table(study.with_links(rows, f"studies/{name}.html"), _OURS)

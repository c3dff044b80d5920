"""Compare every training that a published study prints with ours."""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import pandas as pd

from nodewise.report import evidence
from nodewise.report.context import ReportContext
from nodewise.results import published, studies
from nodewise.results.queries import published_and_ours, published_runs_and_ours

SAME, OTHER, NOT_MEASURED = ("published order", "another order", "not measured")
_TRAINING = ["model", "dataset", "strategy", "nodes"]
_PRINTED = ["printed_name", "seconds_published", "speedup_published", "accuracy_published"]
_OURS = ["batch_per_worker", "seconds_ours", "speedup_ours", "label", "accuracy_ours"]
_OURS += ["accuracy_label", "experiment", "repeats", "flags", "cell_id"]


def scoreboard(study: ReportContext) -> pd.DataFrame:
    """Return one row per printed training, with ours beside it.

    Returns:
        Rows with `row`, the group of trainings that differ in nodes or strategy only; `quantity`,
        what the study's scoreboard compares (`time` or `speedup`, which one node does not have);
        `printed` and `ours`, its values; `ratio`, ours ÷ printed; `order`: whether our times of the
        group are in the printed order, `SAME`, `OTHER` or `NOT_MEASURED`; `kind` of our number; and
        `lacks`, what it lacks to count as evidence. All our times of a group are from one
        experiment.
    """
    quantities = {name: one.scoreboard for name, one in studies.studies().items()}
    tables = [_points(study), *(_trainings(study, name) for name in quantities)]
    rows = pd.concat([table for table in tables if len(table)] or tables[:1], ignore_index=True)
    rows["quantity"] = rows["study"].map(quantities)
    for name, column in {"printed": "published", "ours": "ours"}.items():
        speedup = rows[f"speedup_{column}"].where(rows["nodes"] > 1)
        rows[name] = speedup.where(rows["quantity"] == "speedup", rows[f"seconds_{column}"])
    rows["ratio"] = rows["ours"] / rows["printed"]
    rows["order"] = NOT_MEASURED
    for _, of in rows[rows["seconds_ours"].notna()].groupby(["study", "row"]):
        trainings = of.to_dict("records")
        same = [all(_same_order(one, other) for other in trainings) for one in trainings]
        rows.loc[of.index, "order"] = [SAME if each else OTHER for each in same]
    rows["kind"] = rows["label"].fillna("published")
    return evidence.check_times(rows, study.tables)


def summary(rows: pd.DataFrame) -> dict[str, Any]:
    """Return the numbers that a study's `lead` can show, from its rows of `scoreboard`.

    These are `printed`, the number of printed values; `points`, how many of them have a ratio;
    `low`, `high` and `median`, of all these ratios; `rows`, the number of groups of which we
    measured every training; `same_rows`, those in the printed order; `pairs`, the number of pairs
    of trainings of one group that we measured; `same_pairs`, those in the printed order; and
    `printed_N` and `speedup_N`, the speed-ups on N nodes where one training on N nodes is printed.
    Numbers that are not known are left out.
    """
    known = rows.dropna(subset="ratio")
    groups = [of for _, of in rows.groupby("row") if of["seconds_ours"].notna().all()]
    pairs = [
        _same_order(one, other)
        for _, of in rows[rows["seconds_ours"].notna()].groupby("row")
        for one, other in combinations(of.to_dict("records"), 2)
    ]
    found = {
        "printed": int(rows["printed"].count()),
        "points": len(known),
        "low": known["ratio"].min(),
        "high": known["ratio"].max(),
        "median": known["ratio"].median(),
        "rows": len(groups) or None,
        "same_rows": sum(bool((of["order"] == SAME).all()) for of in groups),
        "pairs": len(pairs) or None,
        "same_pairs": sum(pairs),
    }
    once = rows[rows["speedup_ours"].notna()].drop_duplicates("nodes", keep=False)
    for nodes, theirs, ours in once[["nodes", "speedup_published", "speedup_ours"]].to_numpy():
        found |= {f"printed_{nodes:.0f}": theirs, f"speedup_{nodes:.0f}": ours}
    return {name: number for name, number in found.items() if pd.notna(number)}


def _same_order(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> bool:
    """Return whether the longer of two printed times is also the longer of our two."""
    theirs = one["seconds_published"] - other["seconds_published"]
    return bool(theirs * (one["seconds_ours"] - other["seconds_ours"]) >= 0)


def _points(study: ReportContext) -> pd.DataFrame:
    """Return the points of the table `published` with ours; those of a batch are a group."""
    rows = published_and_ours(study.tables)
    repeats = study.tables["curves"].set_index("cell_id")["repeats"]
    rows = rows.assign(
        repeats=rows["cell_id"].map(repeats),
        strategy=published.PUBLISHED_STRATEGY,
        printed_name="",
        row=[
            f"{study.model_title(model)}, batch {batch}"
            for model, batch in rows[["model", "batch_per_worker"]].to_numpy()
        ],
    )
    for name in ("published", "ours"):
        seconds = rows[f"seconds_{name}"]
        alone = seconds.where(rows["nodes"] == 1).groupby(rows["row"]).transform("first")
        rows[f"speedup_{name}"] = alone / seconds
    return rows[["study", "row", *_TRAINING, *_PRINTED, *_OURS]]


def _trainings(study: ReportContext, name: str) -> pd.DataFrame:
    """Return the single trainings of a study with ours; those of a model are a group.

    Ours of a model are from the experiment with the most printed trainings, then the most at the
    printed batch, then the fewest cautions, then the fewest projections.
    """
    rows = published_runs_and_ours(study.tables, name).dropna(subset="training_time_s")
    batch, whole = rows["batch_per_worker_published"], rows["whole_epochs"].eq(True)
    rows = rows.assign(
        seconds_published=rows["training_time_s"],
        speedup_ours=rows["speedup"],
        accuracy_published=rows["training_accuracy"],
        accuracy_ours=rows["train_accuracy"].where(whole),
        accuracy_label=rows["accuracy_label"].where(whole),
        other_batch=batch.notna() & (batch != rows["batch_per_worker"]),
        caution=rows["flags"] != "",
        projected=rows["label"] != rows["speed_label"],
    )
    worse = ["other_batch", "caution", "projected"]
    sizes = rows.groupby(["model", "experiment"]).agg(
        {"nodes": "size"} | dict.fromkeys(worse, "sum")
    )
    best = sizes.sort_values(["nodes", *worse], ascending=[False, True, True, True], kind="stable")
    best = best.reset_index().drop_duplicates("model")[["model", "experiment"]]
    ours = rows.merge(best).sort_values("other_batch", kind="stable").drop_duplicates(_TRAINING)
    theirs = rows.drop_duplicates(_TRAINING)[[*_TRAINING, *_PRINTED]]
    rows = theirs.merge(ours[[*_TRAINING, *_OURS]], "left", _TRAINING)
    return rows.assign(study=name, row=rows["model"].map(study.model_title))

"""Findings: one question a section, answered in one sentence by what the tables hold."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise import comparisons
from nodewise.claims import judged
from nodewise.pages.markup import (
    CAUTION,
    POINT,
    Column,
    Table,
    badge,
    between_launches,
    data,
    number,
    table,
    text,
)
from nodewise.pages.study import Page, Shown, Study
from nodewise.quantities import counted
from nodewise.tables import CURVE_KEY

_PART = {
    "input": "waiting for examples",
    "wait": "waiting for other workers",
    "communicate": "communicating",
    "apply": "updating the weights",
}
_PAYS = [
    *POINT,
    Column("repeats", "Launches"),
    Column(
        *("speedup", "Against one node", "×"),
        kind_from="label",
        low="speedup_low",
        high="speedup_high",
    ),
    Column("efficiency", "Efficiency", "share", kind_from="label"),
    *CAUTION,
]
_WAYS = [
    *POINT,
    Column("examples_per_s", "Examples/s", "/s", kind_from="label"),
    Column("against_one", "Against one node", "×", kind_from="label"),
    *CAUTION,
]
_ACCURACY = [
    *POINT,
    Column("epochs", "Epochs"),
    Column("of", "Examples"),
    Column("accuracy_one", "On one node", "accuracy", kind_from="label"),
    Column("accuracy", "Accuracy", "accuracy", kind_from="label"),
    *CAUTION,
]
# what trainings have in common that went through the same weights
_TRAINING = [
    *("model", "dataset", "batch_per_worker", "nodes", "epochs"),
    *("train_accuracy", "accuracy", "accuracy_one"),
]
_PARTS = [
    *POINT,
    Column("compute_share", "Computing", "share", kind_from="label"),
    *(
        Column(f"{part}_share", words.capitalize(), "share", kind_from="label")
        for part, words in _PART.items()
    ),
    *CAUTION,
]
_ENERGY = [
    *POINT,
    Column("energy_one_j", "1,000 examples on one node", "J", kind_from="label"),
    Column("energy_j", "1,000 examples", "J", kind_from="label"),
    Column("ratio", "Against one node", "×", kind_from="label"),
    *CAUTION,
]
_CLAIMS = [
    Column("study", "Study"),
    Column("claim", "What it says", wide=True),
    Column("rule", "What decides", wide=True),
    Column("value", "Ours, median and range"),
    Column("verdict", "Verdict"),
    Column("counts", "Comparisons", wide=True),
]
_DEVICES = Markup("Devices of one machine are not several nodes, and are left out.")
_NOTHING = Markup("Nothing that was measured so far answers this.")


@dataclass(frozen=True)
class Finding:
    """A question, its answer in one sentence, and what the answer rests on.

    Attributes:
        anchor: of its section.
        tables: the tables that the answer is from, by name.
        cells: the cells behind the answer; their pages are the evidence.
        limits: what the answer does not say, one sentence each.
    """

    anchor: str
    question: str
    tables: str
    answer: Markup = _NOTHING
    figures: list[Shown] = field(default_factory=list)
    numbers: Table | None = None
    cells: list[str] = field(default_factory=list)
    limits: list[Markup] = field(default_factory=list)


def pages(study: Study) -> Iterator[Page]:
    """Yield the page of the findings."""
    found = [
        nodes_pay(study),
        which_batch(study),
        which_strategy(study),
        accuracy_cost(study),
        why_slower(study),
        energy_cost(study),
    ]
    context = {"findings": found, "claims": claims_table(study)}
    yield Page("findings.html", "findings.md.j2", "Findings", context, figures=True)


def nodes_pay(study: Study) -> Finding:
    """Answer by the points on several nodes, without a caution, against their own one node."""
    asked = Finding("nodes", "Does adding nodes pay?", "curves")
    rows = comparisons.on_several_nodes(study.tables["curves"])
    told = comparisons.fair(rows)
    if told.empty:
        return _with_numbers(study, asked, rows, _PAYS)
    again = comparisons.launched_again(told)
    best = again.sort_values("speedup", kind="stable").iloc[-1]
    among = " of those launched more than once" * (len(again) < len(told))
    gains = int((told["speedup"] > 1).sum())
    speed = number(best["speedup"], "×", best["label"]) + between_launches(best)
    if gains:
        answer = Markup(
            "In {} of {} comparisons several nodes trained faster than one; the most{} was {}, "
            "of {}."
        ).format(gains, len(told), text(among), speed, study.point(best))
    else:
        answer = Markup(
            "In none of {} comparisons did several nodes train faster than one; the nearest to "
            "it{} was {}, of {}."
        ).format(len(told), text(among), speed, study.point(best))
    limits = [
        text(
            "The batch per worker is the same on all nodes: the global batch grows with them, and "
            "an epoch has fewer steps. What that costs in accuracy is another question."
        ),
        _DEVICES,
        *_one_launch(told),
        *_two_runs(study, rows),
    ]
    shown = _figures(study, best, "speedup", "ways", "time")
    cells = [best["cell_id"], best["cell_id_one"]]
    told_of = replace(asked, answer=answer, figures=shown, cells=cells, limits=limits)
    return _with_numbers(study, told_of, rows, _PAYS)


def which_batch(study: Study) -> Finding:
    """Answer by the line and number of nodes of which most batches were measured."""
    asked = Finding("batch", "Which batch?", "curves")
    rows = comparisons.on_several_nodes(study.tables["curves"])
    told = comparisons.fair(rows)
    at = comparisons.OVER_BATCHES
    told = told[told.groupby(at)["batch_per_worker"].transform("nunique") > 1]
    if told.empty:
        several = rows.groupby(at)["batch_per_worker"].transform("nunique") > 1
        return _with_numbers(study, asked, rows[several], _PAYS)
    lines = [line.sort_values("batch_per_worker") for _, line in told.groupby(at)]
    line = max(lines, key=lambda one: (len(one), one["nodes"].iloc[0]))
    small, large = line.iloc[0], line.iloc[-1]
    pays = line.loc[line["speedup"] > 1, "batch_per_worker"]
    rising = line["speedup"].is_monotonic_increasing
    how = "The larger, the better" if rising else "Larger is not always better"
    first = Markup("of the batches {} it pays at {}").format(
        _listed(line["batch_per_worker"]), _listed(pays) if len(pays) else "none"
    )
    answer = Markup(
        "{}: {} on {} nodes by {} has {} the throughput of one node with {} examples per worker "
        "and step, and {} with {}; {}."
    ).format(
        how,
        text(study.model_title(large["model"])),
        large["nodes"],
        text(large["line"]),
        number(small["speedup"], "×", small["label"]),
        small["batch_per_worker"],
        number(large["speedup"], "×", large["label"]),
        large["batch_per_worker"],
        first,
    )
    limits = [
        text("This is of time alone: a larger batch means fewer updates of the weights an epoch."),
        *_one_launch(line),
        *_two_runs(study, line),
    ]
    figures = _figures(study, large, "batches", "speedup", "time")
    cells = [small["cell_id"], large["cell_id"]]
    told_of = replace(asked, answer=answer, figures=figures, cells=cells, limits=limits)
    return _with_numbers(study, told_of, told, _PAYS)


def which_strategy(study: Study) -> Finding:
    """Answer by the experiment and number of nodes at which most strategies were measured."""
    asked = Finding("strategy", "Which strategy?", "curves")
    rows = comparisons.compared_ways(study.tables["curves"])
    told = comparisons.fair(rows)
    at = ["experiment", "model", "cluster", "label", "batch_per_worker", "nodes"]
    groups = [group for _, group in told.groupby(at) if group["strategy"].nunique() > 1]
    if not groups:
        return _with_numbers(study, asked, rows, _WAYS)
    group = comparisons.most_ways(groups)
    group = group.sort_values("examples_per_s", ascending=False)
    best, last = group.iloc[0], group.iloc[-1]
    answer = Markup(
        "Of {} strategies for {} on {} nodes, {} was the fastest with {} examples/s{}{}"
    ).format(
        group["strategy"].nunique(),
        *(text(study.model_title(best["model"])), best["nodes"], text(best["strategy"])),
        number(best["examples_per_s"], "/s", best["label"]),
        text(comparisons.nearly_as_fast(group)),
        _first_of_whole_gradients(group),
    )
    limits = [
        text(
            "Throughput counts examples, not progress: asynchronous, averaging and compressing "
            "strategies take other steps than one node with the global batch would."
        ),
        text(
            "The order belongs to this model, batch and link; a larger model has more to exchange "
            "and more to compute."
        ),
        _DEVICES,
        *_one_launch(group),
    ]
    figures = _figures(study, best, "ways", "ways-parts")
    cells = [best["cell_id"], last["cell_id"]]
    told_of = replace(asked, answer=answer, figures=figures, cells=cells, limits=limits)
    return _with_numbers(study, told_of, group, _WAYS)


def _first_of_whole_gradients(group: pd.DataFrame) -> Markup:
    """Return the fastest way that reduces all gradients in every step, if the first does not."""
    whole = group["exchange"].isin(comparisons.WHOLE_GRADIENTS)
    if not whole.any() or whole.iloc[0]:
        return Markup(".")
    said = Markup("; the fastest that reduces every gradient in every step is {} with {}{}.")
    first = group[whole].iloc[0]
    near = text(comparisons.nearly_as_fast(group[whole]))
    return said.format(
        text(first["strategy"]), number(first["examples_per_s"], "/s", first["label"]), near
    )


def accuracy_cost(study: Study) -> Finding:
    """Answer by whole trainings on several nodes, against the same epochs on one node."""
    asked = Finding(
        "accuracy", "What does it cost in accuracy?", "curves cells published published_runs"
    )
    rows = comparisons.accuracies(study.tables)
    told = comparisons.fair(rows)
    ours, theirs = (told[(told["label"] == "published") == of] for of in (False, True))
    trainings = ours.drop_duplicates(_TRAINING)
    said = [
        _changes(part, who)
        for part, who in ((trainings, "our trainings"), (theirs, "the published ones"))
        if len(part)
    ]
    if not said:
        return _with_numbers(study, asked, rows, _ACCURACY)
    answer = Markup("After the same number of epochs with the same batch per worker, {}.").format(
        Markup(", and ").join(said)
    )
    limits = []
    if ours.empty:
        limits.append(text("None of our trainings on several nodes went through whole epochs."))
    else:
        limits.append(
            text(
                "How far two trainings with other seeds lie apart was not measured: small changes "
                "may be chance."
            )
        )
        limits.append(
            text(
                "What makes a time doubtful, such as more workers than cores, makes no accuracy "
                "so, unless updates come when they come."
            )
        )
    if len(trainings) < len(ours):
        limits.append(
            text(
                "Synchronous ways end in the same weights if they begin with the same: trainings "
                "with the same accuracies count as one."
            )
        )
    worst = ours.sort_values("change", kind="stable").iloc[0] if len(ours) else None
    figures = [] if worst is None else _figures(study, worst, "accuracy-by-epoch", "accuracy")
    cells = sorted(set(ours["cell_id"]) - {""})[:4]
    told_of = replace(asked, answer=answer, figures=figures, cells=cells, limits=limits)
    return _with_numbers(study, told_of, rows, _ACCURACY)


def _changes(rows: pd.DataFrame, who: str) -> Markup:
    worse = int((rows["change"] < 0).sum())
    worst = rows.sort_values("change", kind="stable").iloc[0]
    said = Markup(
        "{} of {} of {} on several nodes were less accurate than on one, at worst {}, not {}, of "
        "the {} examples"
    )
    return said.format(
        *(worse, len(rows), who),
        *(number(worst[name], "accuracy", worst["label"]) for name in ("accuracy", "accuracy_one")),
        worst["of"],
    )


def why_slower(study: Study) -> Finding:
    """Answer by the split steps of the points that trained no faster than one node."""
    asked = Finding("slower", "Why was it slower?", "curves")
    rows = comparisons.parts(study.tables["curves"])
    slow = rows[rows["speedup"] <= 1]
    told = comparisons.fair(slow)
    if told.empty:
        answer = (
            _NOTHING
            if comparisons.fair(rows).empty
            else Markup(
                "It was not: at every point that was split, several nodes trained faster than one."
            )
        )
        return _with_numbers(study, replace(asked, answer=answer), slow, _PARTS)
    counts = told["largest"].value_counts()
    part = counts.index[0]
    of_part = told[told["largest"] == part]
    answer = Markup(
        "At {} of the {} points that were slower than one node, {} was the largest part of a step "
        "besides computing: {} of it in the median, where computing was {}."
    ).format(
        len(of_part),
        len(told),
        text(_PART[part]),
        number(of_part["largest_share"].median(), "share", _kind(of_part)),
        number(of_part["compute_share"].median(), "share", _kind(of_part)),
    )
    worst = told.sort_values("speedup", kind="stable").iloc[0]
    limits = [
        text(
            "Split steps run their parts one after the other; a step that overlaps them is shorter "
            "than their sum."
        ),
        text("Strategies that exchange within the computation itself show that time as computing."),
    ]
    figures = _figures(study, worst, "split", "ways-parts")
    cells = [worst["cell_id"], worst["cell_id_one"]]
    told_of = replace(asked, answer=answer, figures=figures, cells=cells, limits=limits)
    return _with_numbers(study, told_of, slow, _PARTS)


def energy_cost(study: Study) -> Finding:
    """Answer by the energy of a thousand examples, against one node."""
    asked = Finding("energy", "What does it cost in energy?", "cells")
    rows = comparisons.energies(study.tables)
    told = comparisons.fair(rows)
    if told.empty:
        return _with_numbers(study, asked, rows, _ENERGY)
    least, most = (
        told.sort_values("ratio", kind="stable").iloc[0],
        told.sort_values("ratio", kind="stable").iloc[-1],
    )
    more = int((told["ratio"] > 1).sum())
    answer = Markup(
        "In {} of {} comparisons an example took more energy on several nodes than on one: {} in "
        "the median, from {} ({}) to {} ({})."
    ).format(
        more,
        len(told),
        number(told["ratio"].median(), "×", _kind(told)),
        number(least["ratio"], "×", least["label"]),
        study.point(least),
        number(most["ratio"], "×", most["label"]),
        study.point(most),
    )
    limits = [text("This is of training steps alone: starting up and evaluating are left out.")]
    if (told["label"] == "estimated").any():
        limits.append(
            Markup(
                "Without a meter it is {}: CPU time × {:g} W per busy core. What idle cores, "
                "memory and network draw is not in it."
            ).format(badge("estimated"), study.config.watts_per_core)
        )
    cells = [least["cell_id"], most["cell_id"]]
    told_of = replace(asked, answer=answer, figures=[], cells=cells, limits=limits)
    return _with_numbers(study, told_of, rows, _ENERGY)


def _with_numbers(
    study: Study, asked: Finding, rows: pd.DataFrame, columns: list[Column]
) -> Finding:
    """Return the finding with its table; a limit says how many of its points have a caution."""
    if rows.empty:
        return asked
    cautions = len(rows) - len(comparisons.fair(rows))
    said = "{} of {} points have a caution: they are in the table, not in the answer."
    limits = [*asked.limits, *([Markup(said).format(cautions, len(rows))] if cautions else [])]  # noqa: S704 (ours)
    cells = list(dict.fromkeys(cell for cell in asked.cells if cell))
    numbers = table(_shown(study, rows), columns)
    return replace(asked, numbers=numbers, cells=cells, limits=limits)


def _shown(study: Study, rows: pd.DataFrame) -> pd.DataFrame:
    strategy = rows["line"] if "line" in rows else rows["strategy"]
    return rows.assign(model=rows["model"].map(study.model_title), strategy=strategy)


def _figures(study: Study, row: "pd.Series[Any]", *names: str) -> list[Shown]:
    """Return the figures of a point's experiment and model: of the first name that has any.

    Of several lines or experiments it is the point's own.
    """
    line = row["line"] if "line" in row else row["strategy"]
    point = {"study": row["study"], "experiment": row["experiment"], "line": line}
    for name in names:
        shown = study.pick(name, model=row["model"], dataset=row["dataset"])
        own = [
            one for one in shown if all(one.of.get(axis, at) == at for axis, at in point.items())
        ]
        if own:
            return own[:1]
    return []


def _listed(values: "pd.Series[int]") -> str:
    return ", ".join(f"{value:,}" for value in values)


def _two_runs(study: Study, told: pd.DataFrame) -> list[Markup]:
    """Return how many of the points pay in each of two runs, if two were compared."""
    rows = comparisons.in_two_runs(study.tables["curves"], study.changes)
    rows = rows.merge(told[CURVE_KEY], "inner", CURVE_KEY)
    if rows.empty:
        return []
    said = Markup(
        "{} of the points were measured in two runs, with one node beside them: several nodes were "
        "faster than one at {} of them in the one run and at {} in the other. A speed-up is no "
        'surer than the one node it is against: <a href="changes.html">Changes between runs</a>.'
    )
    gains = [int((rows[f"speedup_{run}"] > 1).sum()) for run in ("old", "new")]
    return [said.format(len(rows), *gains)]


def _one_launch(rows: pd.DataFrame) -> list[Markup]:
    single = int((rows["repeats"] < 2).sum())
    said = Markup("Launched once: {} of {}. How far launches differ is not told of them.")
    return [said.format(single, counted(len(rows), "point"))] if single else []


def _kind(rows: pd.DataFrame) -> str:
    """Return the kind of a median: that of most of its rows."""
    return str(rows["label"].mode().iloc[0])


def claims_table(study: Study, of: str | None = None) -> Table:
    """Return what the studies say, or one `of` them, and what our tables say of it."""
    rows, repeats = [], study.tables["curves"].groupby("cell_id")["repeats"].first()
    for one in judged(study.tables, study.overhead):
        if of not in (None, one.claim.study):
            continue
        found = one.comparisons
        value: Any = "–"
        if len(found):
            low, high = found["value"].min(), found["value"].max()
            value = number(found["value"].median(), one.claim.unit, _kind(found))
            if low != high:
                value += Markup('<span class="nw-range">{} to {}</span>').format(
                    data(low, one.claim.unit), data(high, one.claim.unit)
                )
        rows.append(
            {
                "study": one.claim.study,
                "claim": Markup("{} ({})").format(text(one.claim.says), text(one.claim.where)),
                "rule": one.claim.decided_by,
                "value": value,
                "verdict": one.verdict,
                "counts": "{} for, {} against, {} too near".format(*one.speaking)
                + _launched_once(found["cell_id"].map(repeats)),
            }
        )
    return table(rows, _CLAIMS)


def _launched_once(repeats: "pd.Series[float]") -> str:
    once = int((repeats == 1).sum())
    return f"; {once} launched once" if once else ""

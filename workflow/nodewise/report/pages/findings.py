"""Findings: one question a section, answered in one sentence by what the tables hold."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise.core.intervals import INTERVAL
from nodewise.core.units import counted
from nodewise.predict import comparisons
from nodewise.report.claims import judged
from nodewise.report.html import (
    CAUTION,
    POINT,
    Column,
    Table,
    badge,
    between,
    between_launches,
    data,
    interval,
    number,
    table,
    text,
)
from nodewise.report.pages import page
from nodewise.report.pages.strategies import in_words
from nodewise.report.study import Page, Shown, Study, setting
from nodewise.results.tables import CURVE_KEY
from nodewise.strategies import STRATEGIES

_PART = {
    "input": "waiting for examples",
    "wait": "waiting for other workers",
    "communicate": "communication",
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
    Column("repeats", "Launches"),
    Column(
        *("examples_per_s", "Examples/s", "/s"),
        kind_from="label",
        low="examples_per_s_low",
        high="examples_per_s_high",
    ),
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
    Column("value", "Ours, median and range", wide=True),
    Column("verdict", "Verdict"),
    Column("counts", "Comparisons", wide=True),
]
_DEVICES = Markup("Devices of one machine are not several nodes and are left out.")
_NOTHING = Markup("Nothing that was measured so far answers this.")
_WIDE = 2.0  # an interval whose ends lie further apart than this, as a ratio, needs a word


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


@page("findings")
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
    context = {"findings": found, "claims": claims_table(study), "level": f"{100 * INTERVAL:g}"}
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
    among = " at a point launched more than once" * (len(again) < len(told))
    gains = told[told["speedup"] > 1]
    speed = number(best["speedup"], "×", best["label"]) + between_launches(best)
    answer = Markup(
        "On several nodes, training was faster than on one in {} of {}.{} The highest speed-up{} "
        "was {}: {}."
    ).format(
        *(len(gains) or "none", text(counted(len(told), "comparison")), _how_sure(gains)),
        *(text(among), speed, study.point(best)),
    )
    limits = [
        text(
            "The batch per worker is the same on any number of nodes: the global batch grows with "
            "them, and an epoch has fewer steps. What that costs in accuracy is another question."
        ),
        _DEVICES,
        *wide_intervals(study, told),
        *_one_launch(told),
        *_two_runs(study, rows),
    ]
    shown = _figures(study, best, "speedup", "ways", "time")
    cells = [best["cell_id"], best["cell_id_one"]]
    told_of = replace(asked, answer=answer, figures=shown, cells=cells, limits=limits)
    return _with_numbers(study, told_of, rows, _PAYS)


def _how_sure(gains: pd.DataFrame) -> Markup:
    """Return at how many of the points that were faster the interval of the speed-up says so."""
    if gains.empty:
        return Markup("")
    clear = int((gains["speedup_low"] > 1).sum())
    unclear = int((gains["speedup_low"] <= 1).sum())
    once = len(gains) - clear - unclear
    if once == len(gains):
        one = "It has no interval: it was launched once."
        several = "None of these has an interval: they were launched once."
        return text(f" {one if once == 1 else several}")
    said = [
        f"in {clear} of these the 90\u00a0% interval of the speed-up lies above 1"
        if clear
        else "in none of these does the 90\u00a0% interval of the speed-up lie above 1",
        f"in {unclear} it includes 1" if unclear else "",
        f"{once} {'was' if once == 1 else 'were'} launched once, without an interval"
        if once
        else "",
    ]
    return text(f" {'; '.join(filter(None, said)).capitalize()}.")


def wide_intervals(study: Study, rows: pd.DataFrame, up: str = "") -> list[Markup]:
    """Return what the widest interval of the points' speed-ups comes from, if it is a wide one.

    `up` leads from the page to the root of the site.
    """
    known = rows[rows["speedup_low"].notna()]
    if known.empty:
        return []
    wide = known.assign(wide=known["speedup_high"] / known["speedup_low"]).sort_values("wide")
    widest = wide.iloc[-1]
    if widest["wide"] <= _WIDE:
        return []
    one = comparisons.launches_of(study.tables["cells"], widest["cell_id_one"])
    said = Markup(
        "Ranges are 90\u00a0% intervals over launches. The widest, {}, is against a step on "
        "one node that took {} in {}. Short steps differ most between launches: see "
        '<a href="{}method.html">How this was measured</a>.'
    )
    return [
        said.format(
            between(widest["speedup_low"], widest["speedup_high"], "×", widest["label"]),
            between(one.min(), one.max(), "s", widest["label"]),
            *(text(f"{len(one)} launches"), up),
        )
    ]


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
    answer = Markup(
        "{}: with {}, the speed-up is {}{} at {} and {}{} at {} examples per worker and step. {}"
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
        *_one_launch(line),
        *_two_runs(study, line),
    ]
    figures = _figures(study, large, "batches", "speedup", "time")
    cells = [small["cell_id"], large["cell_id"]]
    told_of = replace(asked, answer=answer, figures=figures, cells=cells, limits=limits)
    return _with_numbers(study, told_of, told, _PAYS)


def _how_batch_matters(line: pd.DataFrame) -> str:
    """Say whether larger batches are better, as far as the intervals tell the ends apart."""
    small, large = line.iloc[0], line.iloc[-1]
    if not line["speedup"].is_monotonic_increasing:
        return "Larger batches are not always better for throughput"
    if large["speedup_low"] <= small["speedup_high"]:
        return "Larger batches are not clearly better for throughput"
    return "Larger batches are better for throughput"


def _batches_that_pay(line: pd.DataFrame) -> str:
    """Say at which of a line's batches several nodes are faster, and where that is not clear."""
    pays = line[line["speedup"] > 1]
    if pays.empty:
        said = "none is faster than one node"
    else:
        which = "all" if len(pays) == len(line) else _listed(pays["batch_per_worker"])
        said = f"{which} {'is' if len(pays) == 1 else 'are'} faster than one node"
    unclear = pays[pays["speedup_low"] <= 1]
    if len(unclear):
        said += f"; at {_listed(unclear['batch_per_worker'])} the 90\u00a0% interval includes 1"
    return f"Of the batches without a caution ({_listed(line['batch_per_worker'])}), {said}."


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
    answer = Markup("Of {} strategies for {} on {} nodes, {}.{}").format(
        *(group["strategy"].nunique(), text(study.model_title(best["model"])), best["nodes"]),
        fastest(study, group),
        _first_of_whole_gradients(study, group),
    )
    devices = _devices_beside(study, best)
    limits = [
        text(
            "Throughput counts examples, not progress: asynchronous, averaging and compressing "
            "strategies take other steps than one node with the global batch would."
        ),
        text(
            "The order belongs to this model, batch and link; a larger model has more to exchange "
            "and more to compute."
        ),
        devices or _DEVICES,
        *_one_launch(group),
    ]
    figures = _figures(study, best, "ways", "ways-parts")
    cells = [best["cell_id"], last["cell_id"]]
    told_of = replace(asked, answer=answer, figures=figures, cells=cells, limits=limits)
    return _with_numbers(study, told_of, comparisons.with_rate_intervals(group), _WAYS)


def fastest(study: Study, group: pd.DataFrame) -> Markup:
    """Return which of the strategies of a comparison was the fastest, and which may be as fast."""
    ranked = comparisons.with_rate_intervals(group).sort_values(
        "examples_per_s", ascending=False, kind="stable"
    )
    best = ranked.iloc[0]
    # what the study itself calls a strategy already says it
    own = best["strategy"] in STRATEGIES
    told = setting(best["exchange"], json.loads(best["options"] or "{}")) if own else ""
    overlap, near = comparisons.not_slower(group)
    once = pd.isna(best["examples_per_s_low"])
    ends = best["examples_per_s_low"], best["examples_per_s_high"]
    return Markup("{}{} {}: {} examples/s{}{}").format(
        text(study.strategy_title(best["strategy"])),
        text(f" ({told})" if told else ""),
        "had the highest rate" if overlap or near else "was the fastest",
        number(best["examples_per_s"], "/s", best["label"]),
        Markup(", launched once") if once else interval(*ends, "/s"),
        _as_fast(study, overlap, near),
    )


def _as_fast(study: Study, overlap: list[str], near: list[str]) -> Markup:
    said = ""
    if overlap:
        of = "interval of {} overlaps" if len(overlap) == 1 else "intervals of {} overlap"
        said += f"; the {of.format(named(study, overlap))} with it"
    if near:
        verb = "is" if len(near) == 1 else "are"
        said += f"; {named(study, near)} {verb} less than {comparisons.NEARLY:.0%} below it"
    return text(said.replace("%", "\u00a0%"))


def named(study: Study, strategies: list[str]) -> str:
    """Return the titles of strategies, as a sentence lists them."""
    *first, last = map(study.strategy_title, dict.fromkeys(strategies))
    return f"{', '.join(first)} and {last}" if first else last


def _first_of_whole_gradients(study: Study, group: pd.DataFrame) -> Markup:
    """Return the fastest way that sums all gradients in every step, if the first does not."""
    whole = group["exchange"].isin(comparisons.WHOLE_GRADIENTS)
    if not whole.any() or whole.iloc[0]:
        return Markup("")
    said = Markup(" Of those that sum all gradients in every step, {}.")
    return said.format(fastest(study, group[whole]))


def _devices_beside(study: Study, point: "pd.Series[Any]") -> Markup | None:
    """Return which strategies of a point's experiment train on devices and are not ranked."""
    curves = study.tables["curves"]
    devices = curves["exchange"] == comparisons.DEVICES
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
        for part, who in ((trainings, "our trainings"), (theirs, "the published trainings"))
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
                "How far trainings with other seeds lie apart was not measured: small differences "
                "may be chance."
            )
        )
        limits.append(
            text("In our trainings the learning rate was not scaled with the global batch.")
        )
        limits.append(
            text(
                "A caution about time, such as more workers than cores, does not make an accuracy "
                "doubtful, except with asynchronous strategies, whose updates depend on timing."
            )
        )
    if len(trainings) < len(ours):
        limits.append(
            text(
                "Synchronous strategies that start from the same weights end with the same "
                "weights: trainings with equal accuracies are counted once."
            )
        )
    worst = ours.sort_values("change", kind="stable").iloc[0] if len(ours) else None
    figures = [] if worst is None else _figures(study, worst, "accuracy-by-epoch", "accuracy")
    if figures and worst is not None and worst["of"] == "test":
        limits.append(text("The figure shows training accuracy, the answer test accuracy."))
    cells = sorted(set(ours["cell_id"]) - {""})[:4]
    told_of = replace(asked, answer=answer, figures=figures, cells=cells, limits=limits)
    return _with_numbers(study, told_of, rows, _ACCURACY)


def _changes(rows: pd.DataFrame, who: str) -> Markup:
    """Return how many trainings on several nodes ended less accurate, and the largest loss."""
    worse = int((rows["change"] < 0).sum())
    if not worse:
        return Markup("none of {} of {} on several nodes ended less accurate than on one").format(
            len(rows), who
        )
    worst = rows.sort_values("change", kind="stable").iloc[0]
    said = Markup(
        "{} of {} of {} on several nodes ended less accurate than on one (largest loss: from {} to "
        "{} in {} accuracy)"
    )
    return said.format(
        *(worse, len(rows), who),
        *(number(worst[name], "accuracy", worst["label"]) for name in ("accuracy_one", "accuracy")),
        worst["of"],
    )


def why_slower(study: Study) -> Finding:
    """Answer by the split steps of the points that trained no faster than one node.

    Its figure is of the point in the middle of those that the answer is about.
    """
    asked = Finding("slower", "Why was it slower?", "curves")
    rows = comparisons.parts(study.tables["curves"])
    slow = rows[rows["speedup"] <= 1]
    told = comparisons.fair(slow)
    if told.empty:
        answer = (
            _NOTHING
            if comparisons.fair(rows).empty
            else Markup(
                "It was not: at every point whose parts can be trusted, several nodes trained "
                "faster than one."
            )
        )
        return _with_numbers(study, replace(asked, answer=answer), slow, _PARTS)
    counts = told["largest"].value_counts()
    part = counts.index[0]
    of_part = told[told["largest"] == part]
    several = comparisons.fair(comparisons.on_several_nodes(study.tables["curves"]))
    slower = int((several["speedup"] <= 1).sum())
    answer = Markup(
        "At {} several nodes were not faster than one; {} of them {} parts that can be trusted. "
        "At {} of these the largest part besides computing was {}: it took {} of the step in the "
        "median, computing {}."
    ).format(
        *(text(counted(slower, "point")), len(told), "has" if len(told) == 1 else "have"),
        *(len(of_part), text(_PART[part])),
        number(of_part["largest_share"].median(), "share", _kind(of_part)),
        number(of_part["compute_share"].median(), "share", _kind(of_part)),
    )
    middle = of_part.sort_values("largest_share", kind="stable").iloc[len(of_part) // 2]
    figures = _figures(study, middle, "split", "ways-parts")
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
        *(
            [
                Markup("The figure includes the point with the median share: {}.").format(
                    study.point(middle)
                )
            ]
            if figures
            else []
        ),
    ]
    cells = [middle["cell_id"], middle["cell_id_one"]]
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
        "In {} of {} an example took more energy on several nodes than on one: the median "
        "ratio is {}; it goes from {} ({}) to {} ({})."
    ).format(
        more,
        text(counted(len(told), "comparison")),
        number(told["ratio"].median(), "×", _kind(told)),
        number(least["ratio"], "×", least["label"]),
        study.point(least),
        number(most["ratio"], "×", most["label"]),
        study.point(most),
    )
    limits = [
        text(
            "This is about training steps alone: starting up and evaluating are left out. It is "
            "the median over launches, without an interval."
        )
    ]
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
    said = (
        f"{cautions} of {counted(len(rows), 'point')} {'has' if cautions == 1 else 'have'} a "
        "caution: in the table, not in the answer."
    )
    limits = [*asked.limits, *([text(said)] if cautions else [])]
    cells = list(dict.fromkeys(cell for cell in asked.cells if cell))
    numbers = table(_shown(study, rows), columns)
    return replace(asked, numbers=numbers, cells=cells, limits=limits)


def _shown(study: Study, rows: pd.DataFrame) -> pd.DataFrame:
    strategy = rows["line"] if "line" in rows else rows["strategy"]
    return in_words(study, rows.assign(strategy=strategy), "findings.html")


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
    *first, last = [f"{value:,}" for value in values]
    return f"{', '.join(first)} and {last}" if first else last


def _two_runs(study: Study, told: pd.DataFrame) -> list[Markup]:
    """Return how many of the points pay in each of two runs, if two were compared."""
    rows = comparisons.in_two_runs(study.tables["curves"], study.changes)
    rows = rows.merge(told[CURVE_KEY], "inner", CURVE_KEY)
    if rows.empty:
        return []
    said = Markup(
        "{} of the points {} measured in two runs, each with its own one node: several nodes were "
        "faster at {} of them in one run and at {} in the other. A speed-up is no more certain "
        'than the one-node time it is against: <a href="changes.html">Changes between runs</a>.'
    )
    gains = [int((rows[f"speedup_{run}"] > 1).sum()) for run in ("old", "new")]
    return [said.format(len(rows), "was" if len(rows) == 1 else "were", *gains)]


def _one_launch(rows: pd.DataFrame) -> list[Markup]:
    single = int((rows["repeats"] < 2).sum())
    said = Markup("{} of {} {} launched once; how far repeated launches would differ is unknown.")
    verb = "was" if single == 1 else "were"
    return [said.format(single, counted(len(rows), "point"), verb)] if single else []


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
        values = [_median(part, at, one.claim.unit) for at, part in found.groupby("at", sort=False)]
        lone = " (one comparison)" * (len(found) == 1 and one.verdict in ("agrees", "disagrees"))
        rows.append(
            {
                "study": one.claim.study,
                "claim": Markup("{} ({})").format(text(one.claim.says), text(one.claim.where)),
                "rule": one.claim.decided_by,
                "value": Markup("<br>").join(values) or "–",
                "verdict": one.verdict + lone,
                "counts": "{} for, {} against, {} too near".format(*one.speaking)
                + _launched_once(found["cell_id"].map(repeats)),
            }
        )
    return table(rows, _CLAIMS)


def _median(rows: pd.DataFrame, at: object, unit: str) -> Markup:
    """Return the median of what a rule compared, with its range, and `at` which points."""
    low, high = rows["value"].min(), rows["value"].max()
    value = number(rows["value"].median(), unit, _kind(rows))
    if at:
        value += text(f" {at}")
    if low != high:
        value += Markup('<span class="nw-range">{} to {}</span>').format(
            data(low, unit), data(high, unit)
        )
    return value


def _launched_once(repeats: "pd.Series[float]") -> str:
    once = int((repeats == 1).sum())
    return f"; {once} launched once" if once else ""

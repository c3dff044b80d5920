"""Recommend a strategy and a number of nodes for each goal, for the page Your case."""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise.core.exchanges import exchanges_where
from nodewise.core.units import counted
from nodewise.report import evidence
from nodewise.report.comparison_words import fastest, join_words, most_compared, named
from nodewise.report.context import ReportContext
from nodewise.report.html import between, interval, number, text
from nodewise.report.tables import CAUTION, KIND, POINT, RATE, Column, Table, table
from nodewise.results import comparisons

PAGE = "your-case.html"
_SPEEDS = [
    *POINT,
    *RATE,
    Column("node_s", "Node time of 1,000 examples", "s", kind_from="label"),
    *CAUTION,
]
_TRAININGS = [
    *POINT,
    Column("epochs", "Epochs"),
    Column("train_time_s", "Training time", "s", kind_from="label"),
    Column("in_time", "Training, in the shortest time", "accuracy", kind_from="label"),
    Column("in_epochs", "Training, in as many epochs", "accuracy", kind_from="label"),
    Column("test_accuracy", "Test, at the end", "accuracy", kind_from="label"),
    *CAUTION,
]
_ALIKE = 0.005  # accuracies this close to the best one are not called worse
_BINS = {  # lower end of a range -> the range in words
    0.0: "0 to 0.25",
    0.25: "0.25 to 0.5",
    0.5: "0.5 to 1",
    1.0: "1 to 2",
    2.0: "2 to 4",
    4.0: "4 and more",
}
_RATIOS = [
    Column("ratio", "Communicating ÷ computing"),
    Column("points", "Points"),
    Column("pay", "Faster than one node"),
    Column("clear", "Of these, 90\u00a0% interval above 1"),
    Column("speedup", "Median speed-up", "×", kind_from="label"),
    Column("efficiency", "Median efficiency", "share", kind_from="label"),
    KIND,
]


def context(study: ReportContext) -> dict[str, Any]:
    """Return the template variables of the page Your case that are about strategies."""
    speeds = evidence.check_times(comparisons.compared_points(study.tables["curves"]), study.tables)
    speeds = comparisons.with_rate_intervals(speeds)
    trained = trainings(study)
    return {
        "answers": [*_by_speed(study, speeds), *_by_accuracy(study, trained)],
        "rule": ratio_rule(study),
        "ratios": _ratios(study),
        "speeds": table(study.with_links(speeds, PAGE), _SPEEDS) if len(speeds) else None,
        "trainings": table(study.with_links(trained, PAGE), _TRAININGS) if len(trained) else None,
    }


def _by_speed(study: ReportContext, rows: pd.DataFrame) -> Iterator[dict[str, str]]:
    """Yield the fastest and the cheapest strategy at the points with most strategies compared."""
    group = most_compared(rows)
    if group is None:
        yield _too_little("Fastest and cheapest", rows)
        return
    best = group.sort_values("examples_per_s", kind="stable").iloc[-1]
    yield {
        "criterion": Markup("Fastest"),
        "answer": Markup("Of {} strategies, {}").format(
            group["strategy"].nunique(), fastest(study, group)
        ),
        "where": _point(study, best),
        "page": study.curve_pages[best["cell_id"]],
    }
    cheapest = group.sort_values("node_s", kind="stable").iloc[0]
    yield {
        "criterion": Markup("Cheapest, by node time"),
        "answer": _cheapest(study, cheapest),
        "where": _point(study, cheapest),
        "page": study.curve_pages[cheapest["cell_id"]],
    }


def _too_little(goal: str, rows: pd.DataFrame) -> dict[str, str]:
    """Return the answer that there is too little evidence for a goal, with what to measure."""
    needs = text(f"Too little evidence. {evidence.needs(rows)}")
    return {"criterion": Markup(goal), "answer": needs, "where": Markup(""), "page": ""}  # noqa: S704


def _cheapest(study: ReportContext, point: "pd.Series[Any]") -> Markup:
    """Compare the node time of a strategy on several nodes with that of one node.

    The lower one is named first. Node time is in seconds per 1,000 examples.
    """
    alone = point["examples_per_s_one"]
    one_s = 1000 / alone if alone > 0 else float("nan")
    title = study.strategy_title(point["strategy"])
    sentences = [
        _node_time(point, title, point["node_s"]),
        _node_time(point, "one node", one_s, "_one"),
    ]
    if pd.isna(one_s):
        return sentences[0] + Markup(" of node time per 1,000 examples")
    (low, high), (low_one, high_one) = (
        _node_time_ends(point, point["node_s"]),
        _node_time_ends(point, one_s, "_one"),
    )
    overlap = "; the intervals overlap" if low <= high_one and low_one <= high else ""
    if one_s <= point["node_s"]:
        sentences.reverse()
    return Markup("{} of node time per 1,000 examples; {}{}").format(*sentences, overlap)


def _node_time(point: "pd.Series[Any]", title: str, node_s: float, of: str = "") -> Markup:
    """Return a node time with its interval in words.

    Args:
        point: the point, with its step time and interval.
        title: what takes this time.
        node_s: the node time in seconds.
        of: the suffix of the columns of `point` to use, such as `_one`.
    """
    low, high = _node_time_ends(point, node_s, of)
    # the point on one node may have been launched only once
    ends = Markup(", launched once") if pd.isna(low) else interval(low, high, "s")
    return Markup("{}: {}{}").format(text(title), number(node_s, "s", point["label"]), ends)


def _node_time_ends(point: "pd.Series[Any]", node_s: float, of: str = "") -> tuple[float, float]:
    """Return the interval of a node time, scaled from that of the step time."""
    low, high = (
        point[f"step_time_{end}_s{of}"] / point[f"step_time_s{of}"] for end in ("low", "high")
    )
    return node_s * low, node_s * high


def _by_accuracy(study: ReportContext, rows: pd.DataFrame) -> Iterator[dict[str, str]]:
    """Yield the most accurate strategies, from the largest group of comparable trainings."""
    points = _points(study, rows)
    counting = evidence.select(points)
    groups = [of for _, of in counting.groupby(_TRAINED) if len(of) > 1]
    if not groups:
        yield _too_little("Most accurate", points)
        return
    group = max(groups, key=len)
    for name, criterion, examples in (
        ("test_accuracy", "Most accurate", "test"),
        ("in_time", "Most accurate in a given time", "training"),
        ("in_epochs", "Most accurate in given epochs", "training"),
    ):
        # a caution is about time, so it matters only for the accuracy in a given time
        known = group[group["flags"] == ""] if name == "in_time" else group
        known = known.dropna(subset=name)
        if known.empty:
            continue
        best = known.sort_values(name, kind="stable").iloc[-1]
        near = known[name] >= best[name] - _ALIKE
        alike = known.loc[near, "strategy"].drop(best.name)
        sentence = Markup("{}: {} {} accuracy; {} among {}{}")
        several = sorted(set(known["nodes"]))
        yield {
            "criterion": Markup(criterion),  # noqa: S704 (of this module)
            "answer": sentence.format(
                text(study.strategy_title(best["strategy"])),
                *(number(best[name], "accuracy", best["label"]), examples),
                between(known[name].min(), known[name].max(), "accuracy", best["label"]),
                text(counted(len(known), "training")),
                text(_not_apart(study, alike.tolist())),
            ),
            "where": _point(study, best, several),
            "page": study.curve_pages[best["cell_id"]],
        }


def _points(study: ReportContext, cells: pd.DataFrame) -> pd.DataFrame:
    """Return one row per strategy and nodes: mean accuracies over launches, and `lacks`.

    `lacks` says what the row lacks to count as evidence.
    """
    scores = ("test_accuracy", "in_time", "in_epochs")
    points = cells.groupby([*_TRAINED, "study", "strategy", "nodes"], as_index=False).agg(
        **{name: (name, "mean") for name in scores},
        repeats=("cell_id", "size"),
        epochs=("epochs", "first"),
        flags=("flags", "max"),
        cell_id=("cell_id", "first"),
    )
    return evidence.check_accuracies(points, study.tables)


def _not_apart(study: ReportContext, strategies: list[str]) -> str:
    return f"; not distinguishable from {named(study, strategies)}" if strategies else ""


_TRAINED = ["experiment", "model", "dataset", "cluster", "label", "batch_per_worker"]


def trainings(study: ReportContext) -> pd.DataFrame:
    """Return the cells that trained whole epochs, with accuracies at equal times and epochs.

    Trainings with equal `_TRAINED` columns are compared. `in_time` is the training accuracy after
    the last epoch that ended before the fastest of these trainings did. `in_epochs` is the training
    accuracy after as many epochs as the shortest of them had. `train_time_s` is the time of
    training alone.
    """
    cells = study.cells[(study.cells["status"] == "ok") & study.cells["whole_epochs"]]
    cells = cells.assign(label=cells["accuracy_label"])
    epochs = study.tables["epochs"].sort_values(["cell_id", "epoch"])
    epochs = epochs.assign(ended_s=epochs.groupby("cell_id")["seconds"].cumsum())
    # summed like the epochs, so that the fastest training's last epoch is within its own time
    ended_s = cells["cell_id"].map(epochs.groupby("cell_id")["ended_s"].last())
    cells = cells.assign(ended_s=ended_s.astype("float64"))
    at_end = cells.groupby(_TRAINED)[["ended_s", "epochs"]].transform("min")
    ends = cells[["cell_id"]].assign(
        budget_s=at_end["ended_s"], shared=at_end["epochs"].astype("int64")
    )
    epochs = epochs.merge(ends, "inner", "cell_id")
    of_time = epochs[epochs["ended_s"] <= epochs["budget_s"]]
    of_epochs = epochs[epochs["epoch"] <= epochs["shared"]]
    last = {
        name: rows.groupby("cell_id")["accuracy"].last()
        for name, rows in (("in_time", of_time), ("in_epochs", of_epochs))
    }
    return cells.assign(**{name: cells["cell_id"].map(values) for name, values in last.items()})


def _split(study: ReportContext) -> pd.DataFrame:
    """Return the data-parallel points that count and whose communication was timed separately."""
    rows = evidence.check_times(
        comparisons.parts(study.tables["curves"]), study.tables, other="_one"
    )
    rows = evidence.select(rows)
    return rows[
        rows["exchange"].isin(exchanges_where(lambda exchange: exchange.data_parallel))
        & (rows["ratio"] > 0)
    ]


def ratio_rule(study: ReportContext) -> Markup | None:
    """State the rule by the transfer-to-compute ratio, and how many points followed it.

    A step on n nodes takes (1 + ratio) times as long as on one node and trains n times as many
    examples, so n nodes are faster if n > 1 + ratio. None is returned if there are no points.
    """
    rows = _split(study)
    if rows.empty:
        return None
    follows = (rows["speedup"] > 1) == (rows["nodes"] > 1 + rows["ratio"])
    followed = int(follows.sum())
    rule = Markup(
        "n nodes are faster than one if n is larger than 1 + ratio: {} of {} followed this rule{}."
    ).format(followed, text(counted(len(rows), "point")), text(_surely(rows, follows)))
    clear = rows[rows["speedup_low"] > 1]
    if clear.empty:
        return rule + Markup(
            " At none of them does the 90\u00a0% interval of the speed-up lie above 1."
        )
    last = clear.sort_values("ratio").iloc[-1]
    sentences = Markup(
        " The largest ratio at which several nodes were clearly faster (90\u00a0% interval above "
        "1) was {}, on {} nodes{}."
    )
    exception = last["nodes"] <= 1 + last["ratio"]
    return rule + sentences.format(
        number(last["ratio"], "mean", last["label"]),
        last["nodes"],
        ", an exception to the rule" if exception else "",
    )


def _surely(rows: pd.DataFrame, follows: "pd.Series[bool]") -> str:
    """State how many of the points whose interval excludes 1 followed the rule.

    Empty if the interval of no point excludes 1.
    """
    sure = (rows["speedup_low"] > 1) | (rows["speedup_high"] < 1)
    if not sure.any():
        return ""
    of = int(sure.sum())
    agree = int(follows[sure].sum())
    all_of = "all" if agree == of else f"{agree} of the"
    return f", among them {all_of} {of} whose 90\u00a0% interval excludes 1"


def _ratios(study: ReportContext) -> Table | None:
    """Return a table of speed-ups and efficiencies by ranges of the ratio."""
    rows = _split(study)
    if rows.empty:
        return None
    ranges = pd.cut(rows["ratio"], [*_BINS, float("inf")], labels=[*_BINS.values()], right=False)
    shown = [
        {
            "ratio": name,
            "points": len(part),
            "pay": int((part["speedup"] > 1).sum()),
            "clear": int((part["speedup_low"] > 1).sum()),
            "speedup": part["speedup"].median(),
            "efficiency": part["efficiency"].median(),
            "label": kind,
        }
        for (name, kind), part in rows.groupby([ranges, "label"], observed=True)
    ]
    return table(shown, _RATIOS)


def _point(study: ReportContext, row: "pd.Series[Any]", nodes: Sequence[int] = ()) -> Markup:
    """Describe in words where a point was measured.

    With several `nodes`, for a comparison across numbers of nodes, all of these are listed.
    """
    on = f"{join_words(map(str, nodes))} nodes" if len(nodes) > 1 else counted(row["nodes"], "node")
    sentences = Markup("{}, {}, {} per worker, in {}")
    return sentences.format(
        text(study.model_title(row["model"])),
        text(on),
        text(counted(row["batch_per_worker"], "example")),
        text(study.experiment_title(row["experiment"])),
    )

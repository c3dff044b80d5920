"""Choosing: which strategy and how many nodes, by what matters to the reader."""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise import comparisons
from nodewise.pages.markup import CAUTION, POINT, Column, Table, data, number, table, text
from nodewise.pages.study import Page, Study

_WHERE = ["experiment", "model", "cluster", "label", "batch_per_worker", "nodes"]
_SPEEDS = [
    *POINT,
    Column("examples_per_s", "Examples/s", "/s", kind_from="label"),
    Column("against_one", "Against one node", "×", kind_from="label"),
    Column("node_s", "Node time of 1,000 examples", "s", kind_from="label"),
    *CAUTION,
]
_TRAININGS = [
    *POINT,
    Column("epochs", "Epochs"),
    Column("train_time_s", "Training time", "s", kind_from="label"),
    Column("in_time", "In the shortest time", "accuracy", kind_from="label"),
    Column("in_epochs", "In as many epochs", "accuracy", kind_from="label"),
    Column("test_accuracy", "Test, at the end", "accuracy", kind_from="label"),
    *CAUTION,
]
_ALIKE = 0.005  # accuracies that are nearer than that, of one seed each, are not told apart
_BINS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)  # from, each up to the next
_RATIOS = [
    Column("ratio", "Communicating ÷ computing"),
    Column("points", "Points"),
    Column("pay", "Faster than one node"),
    Column("speedup", "Median speed-up", "×", kind_from="label"),
    Column("efficiency", "Median efficiency", "share", kind_from="label"),
    Column("label", "Kind"),
]


def pages(study: Study) -> Iterator[Page]:
    """Yield the guide."""
    speeds = comparisons.compared_ways(study.tables["curves"])
    trained = trainings(study)
    context = {
        "answers": [*_by_speed(study, comparisons.fair(speeds)), *_by_accuracy(study, trained)],
        "rule": ratio_rule(study),
        "ratios": _ratios(study),
        "speeds": table(_titled(study, speeds), _SPEEDS) if len(speeds) else None,
        "trainings": table(_titled(study, trained), _TRAININGS) if len(trained) else None,
    }
    yield Page("choosing.html", "choosing.md.j2", "Choosing", context)


def _by_speed(study: Study, rows: pd.DataFrame) -> Iterator[dict[str, str]]:
    """Yield what is fastest and cheapest where most strategies were measured beside each other."""
    groups = [group for _, group in rows.groupby(_WHERE) if group["strategy"].nunique() > 1]
    if not groups:
        return
    group = comparisons.most_ways(groups)
    fastest = group.sort_values("examples_per_s", kind="stable").iloc[-1]
    yield {
        "criterion": Markup("Fastest"),
        "answer": Markup(
            "{}: {} examples/s, the most of {} strategies measured beside each other{}"
        ).format(
            text(fastest["strategy"]),
            number(fastest["examples_per_s"], "/s", fastest["label"]),
            group["strategy"].nunique(),
            text(comparisons.nearly_as_fast(group)),
        ),
        "where": _point(study, fastest),
        "cell": fastest["cell_id"],
    }
    alone = group["examples_per_s_one"].iloc[0]
    cheapest = group.sort_values("node_s", kind="stable").iloc[0]
    one_s = 1000 / alone if alone > 0 else float("nan")
    if one_s <= cheapest["node_s"]:
        answer = Markup("one node: {} of a node for a thousand examples, against {} of {}").format(
            number(one_s, "s", cheapest["label"]),
            number(cheapest["node_s"], "s", cheapest["label"]),
            text(cheapest["strategy"]),
        )
    else:
        answer = Markup("{}: {} of a node for a thousand examples").format(
            text(cheapest["strategy"]), number(cheapest["node_s"], "s", cheapest["label"])
        )
    yield {
        "criterion": Markup("Cheapest, by node time"),
        "answer": answer,
        "where": _point(study, cheapest),
        "cell": cheapest["cell_id"],
    }


def _by_accuracy(study: Study, rows: pd.DataFrame) -> Iterator[dict[str, str]]:
    """Yield what is most accurate where most whole trainings can be compared."""
    # what makes a time doubtful makes no accuracy so, unless updates come when they come
    told = rows[(rows["flags"] == "") | (rows["exchange"] != comparisons.SERVER)]
    groups = [of for _, of in told.groupby(_TRAINED) if len(of) > 1]
    if not groups:
        return
    group = max(groups, key=len)
    for name, criterion, examples in (
        ("test_accuracy", "Most accurate", "test"),
        ("in_time", "Most accurate in a given time", "training"),
        ("in_epochs", "Most accurate in given epochs", "training"),
    ):
        known = (comparisons.fair(group) if name == "in_time" else group).dropna(subset=name)
        if known.empty:
            continue
        best = known.sort_values(name, kind="stable").iloc[-1]
        alike = known.loc[known[name] >= best[name] - _ALIKE, "strategy"].drop(best.name)
        told_of = Markup("{}: {} of the {} examples; {} to {} in {} trainings, each of one seed{}")
        yield {
            "criterion": Markup(criterion),  # noqa: S704 (of this module)
            "answer": told_of.format(
                text(best["strategy"]),
                number(best[name], "accuracy", best["label"]),
                examples,
                data(known[name].min(), "accuracy"),
                data(known[name].max(), "accuracy"),
                len(known),
                text(f"; no surer than {', '.join(dict.fromkeys(alike))}" if len(alike) else ""),
            ),
            "where": _point(study, best),
            "cell": best["cell_id"],
        }


_TRAINED = ["experiment", "model", "dataset", "cluster", "label", "batch_per_worker"]


def trainings(study: Study) -> pd.DataFrame:
    """Return the cells that trained whole epochs, with accuracies at the same time and epoch.

    `in_time` is the training accuracy of the last epoch that ended within the time in which the
    quickest training of the same experiment, model and batch ended; `in_epochs` that after as many
    epochs as all of these went through. `train_time_s` is of training alone.
    """
    cells = study.cells[(study.cells["status"] == "ok") & study.cells["whole_epochs"]]
    cells = cells.assign(label=cells["accuracy_label"])
    epochs = study.tables["epochs"].sort_values(["cell_id", "epoch"])
    epochs = epochs.assign(ended_s=epochs.groupby("cell_id")["seconds"].cumsum())
    # by the same sums as the epochs: the quickest training ends in its own time
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


def _split(study: Study) -> pd.DataFrame:
    """Return the data-parallel points without a caution whose communicating was told apart."""
    rows = comparisons.fair(comparisons.parts(study.tables["curves"]))
    return rows[rows["exchange"].isin(comparisons.DATA_PARALLEL) & (rows["ratio"] > 0)]


def ratio_rule(study: Study) -> Markup | None:
    """Return the rule by the transfer-to-compute ratio, and how often the points followed it.

    A step of n nodes takes (1 + ratio) times what one node takes and trains n times the examples.
    """
    rows = _split(study)
    if rows.empty:
        return None
    pays = rows["speedup"] > 1
    followed = int((pays == (rows["nodes"] > 1 + rows["ratio"])).sum())
    rule = Markup(
        "Several nodes pay if there are more of them than one plus the ratio: {} of {} points "
        "followed this rule."
    ).format(followed, len(rows))
    if not pays.any():
        return rule + Markup(" None of them was faster than one node.")
    last = rows[pays].sort_values("ratio").iloc[-1]
    said = Markup(" The largest ratio at which nodes paid was {}, on {} of them{}.")
    exception = last["nodes"] <= 1 + last["ratio"]
    return rule + said.format(
        number(last["ratio"], "×", last["label"]),
        last["nodes"],
        ", against the rule" if exception else "",
    )


def _ratios(study: Study) -> Table | None:
    """Return speed-ups and efficiencies by ranges of the ratio."""
    rows = _split(study)
    if rows.empty:
        return None
    ranges = pd.cut(rows["ratio"], [*_BINS, float("inf")], labels=_BINS, right=False)
    shown = [
        {
            "ratio": f"from {start:g}",
            "points": len(part),
            "pay": int((part["speedup"] > 1).sum()),
            "speedup": part["speedup"].median(),
            "efficiency": part["efficiency"].median(),
            "label": kind,
        }
        for (start, kind), part in rows.groupby([ranges, "label"], observed=True)
    ]
    return table(shown, _RATIOS)


def _titled(study: Study, rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(model=rows["model"].map(study.model_title))


def _point(study: Study, row: "pd.Series[Any]") -> Markup:
    nodes = "1 node" if row["nodes"] == 1 else f"{row['nodes']} nodes"
    model = text(study.model_title(row["model"]))
    said = Markup("{}, {}, {} examples per worker and step, in {}")
    return said.format(model, text(nodes), row["batch_per_worker"], text(row["experiment"]))

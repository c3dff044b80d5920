"""Compare points of the tables: which point is compared with which. Data frames in and out.

Ratios are relative to one node with the same batch per worker. Points with a caution (`flags`) stay
in the frames; findings select the points that count as evidence.
"""

from collections.abc import Sequence

import pandas as pd

from nodewise.core.exchanges import exchanges_where
from nodewise.results.cautions import cautions_of_launches, join_cautions
from nodewise.results.columns import CURVE_KEY, ONE_NODE_KEY, PARTS, SINGLE
from nodewise.results.queries import (
    GROUP,
    Tables,
    compared_strategies,
    plain_training,
    scaling_lines,
    with_labels,
)

OVERHEADS = ("input", *(part for part in PARTS if part != "compute"))

ALIKE = [*GROUP, "cluster", "machine", "label", "whole_epochs", "batch_per_worker"]
"""The columns in which two points must agree to be compared."""
OVER_BATCHES = ["experiment", "model", "cluster", "line", "label", "nodes"]
"""The columns in which points must agree to be compared over their batches."""
SPLIT_LONGER = 0.25
SHORT_S = 0.01
_SECONDS = [f"{part}_s" for part in ("compute", *OVERHEADS)]


def on_devices(points: pd.DataFrame) -> "pd.Series[bool]":
    """Return which points train on devices of one machine, which do not count as several nodes."""
    return points["exchange"].isin(exchanges_where(lambda exchange: exchange.in_process))


def never_wait(points: pd.DataFrame) -> "pd.Series[bool]":
    """Return which points have workers that do not wait for each other."""
    return points["exchange"].isin(exchanges_where(lambda exchange: exchange.waits == "never"))


def sum_gradients(points: pd.DataFrame) -> "pd.Series[bool]":
    """Return which points sum the whole gradients of all nodes in every step."""
    return points["exchange"].isin(exchanges_where(lambda exchange: exchange.sums_gradients))


def most_strategies(groups: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the group with the most strategies; among several, the one on the most nodes."""
    return max(groups, key=lambda one: (one["strategy"].nunique(), one["nodes"].iloc[0]))


def with_rate_intervals(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the interval of their throughput, computed from that of step times."""
    times = rows["step_time_s"] * rows["examples_per_s"]
    return rows.assign(
        examples_per_s_low=times / rows["step_time_high_s"],
        examples_per_s_high=times / rows["step_time_low_s"],
    )


def not_slower(group: pd.DataFrame) -> list[str]:
    """Return the strategies whose interval overlaps with that of the fastest of the group."""
    ranked = with_rate_intervals(group).sort_values(
        "examples_per_s", ascending=False, kind="stable"
    )
    best, others = ranked.iloc[0], ranked.iloc[1:]
    overlap = others["examples_per_s_high"] >= best["examples_per_s_low"]
    return [*others.loc[overlap, "strategy"]]


def launches_of(cells: pd.DataFrame, cell_id: str) -> "pd.Series[float]":
    """Return the step times of all successful launches of the point to which a cell belongs."""
    of = cells.loc[cells["cell_id"] == cell_id, CURVE_KEY]
    return cells[cells["status"] == "ok"].merge(of, "inner", CURVE_KEY)["step_time_s"]


def on_several_nodes(curves: pd.DataFrame) -> pd.DataFrame:
    """Return the points of `queries.scaling_lines` on several nodes, with their speed-ups.

    Points without a one-node reference are dropped. The reference is `single` with the same batch
    per worker, or else the strategy's own point on one node. `single` comes first so that a
    strategy gains nothing by being slow on one node. `cell_id_one` is a cell of the reference.
    `speedup_low` and `speedup_high` are the range that follows from the intervals of both step
    times; NaN if one of them had a single launch. Cautions about the reference also apply to the
    point.
    """
    rows = with_labels(scaling_lines(curves))
    times = [f"step_time_{end}s" for end in ("", "low_", "high_")]
    names = ["examples_per_s", "cell_id", "flags", "repeats", *times]
    alone = with_labels(plain_training(curves))
    own = rows[rows["nodes"] == 1].sort_values("line", kind="stable")
    several = rows[(rows["nodes"] > 1) & ~on_devices(rows)]
    several = _join_one_node(several, alone[[*ALIKE, *names]], own, ALIKE, "line")
    speedup = several["examples_per_s"] / several["examples_per_s_one"]
    ends = {
        end: speedup
        * (several[f"step_time_{end}_s_one"] / several["step_time_s_one"])
        * (several["step_time_s"] / several[f"step_time_{other}_s"])
        for end, other in (("low", "high"), ("high", "low"))
    }
    several = several.assign(
        flags=_with_flags_of_one(several),
        speedup=speedup,
        speedup_low=ends["low"],
        speedup_high=ends["high"],
        efficiency=speedup / several["nodes"],
    )
    return several.dropna(subset="speedup").reset_index(drop=True)


def shares_of_a_core(curves: pd.DataFrame) -> pd.DataFrame:
    """Return one-node step times by share of a core, if a machine was measured at several shares.

    There is one row per machine, model, dataset, batch and share: the median over points, in the
    node's own time. `against` is the ratio to the largest share. It is 1 if the emulation of slower
    nodes has no cost of its own.
    """
    one = with_labels(plain_training(curves))
    one = one[~one["whole_epochs"]]
    share = one["cluster"].str.extract(r"^([\d.]+) core", expand=False)
    one = one.assign(
        share=share.fillna("1").add(" core"),
        part=share.astype("float64").fillna(1.0),
    )
    at = ["machine", "model", "dataset", "batch_per_worker"]
    one = one[one.groupby(at)["part"].transform("nunique") > 1]
    rows = one.groupby([*at, "part", "share"], as_index=False).agg(
        step_time_s=("step_time_s", "median"), launches=("repeats", "sum"), label=("label", "first")
    )
    rows = rows.sort_values([*at, "part"], ascending=[*(True for _ in at), False])
    largest = rows.groupby(at)["step_time_s"].transform("first")
    return rows.assign(against=rows["step_time_s"] / largest).reset_index(drop=True)


def _with_flags_of_one(rows: pd.DataFrame) -> list[str]:
    """Return the cautions of points, including those of their one-node references."""
    both = zip(rows["flags"], rows["flags_one"].fillna(""), strict=True)
    return [join_cautions(own, one and f"on one node: {one}") for own, one in both]


def in_two_runs(curves: pd.DataFrame, changes: pd.DataFrame) -> pd.DataFrame:
    """Return the points of `on_several_nodes` that two runs measured, both together with `single`.

    `speedup_old` and `speedup_new` are relative to `single` of the same run. `changes` is the table
    `changes`.
    """
    several = on_several_nodes(curves)[CURVE_KEY]
    single = changes.loc[changes["strategy"] == SINGLE, [*ONE_NODE_KEY, "old_s", "new_s"]]
    rows = changes.merge(several, "inner", CURVE_KEY).merge(
        single, "inner", ONE_NODE_KEY, suffixes=("", "_one")
    )
    rows = rows.assign(
        speedup_old=rows["nodes"] * rows["old_s_one"] / rows["old_s"],
        speedup_new=rows["nodes"] * rows["new_s_one"] / rows["new_s"],
    )
    return rows.dropna(subset=["speedup_old", "speedup_new"]).reset_index(drop=True)


def compared_points(curves: pd.DataFrame) -> pd.DataFrame:
    """Return the points on several nodes of experiments that compare several strategies.

    `against_one` is the throughput relative to `single` with the same batch per worker. `node_s` is
    the time of a thousand examples in node-seconds. Columns of the `single` point end in `_one`.
    """
    rows = compared_strategies(curves).rename(columns={"kind": "label"})
    times = [f"step_time_{end}s" for end in ("", "low_", "high_")]
    one = rows.loc[rows["strategy"] == SINGLE, [*ALIKE, "examples_per_s", "flags", *times]]
    one = one.drop_duplicates(ALIKE)
    rows = rows[(rows["nodes"] > 1) & ~on_devices(rows)]
    rows = rows.merge(one, "left", ALIKE, suffixes=("", "_one"))
    return rows.assign(
        flags=_with_flags_of_one(rows),
        against_one=rows["examples_per_s"] / rows["examples_per_s_one"],
        node_s=1000 * rows["nodes"] / rows["examples_per_s"],
    )


def parts(curves: pd.DataFrame) -> pd.DataFrame:
    """Return the points on several nodes that have split steps, with the share of each part.

    Shares are in the columns `…_share`. `largest` is the largest overhead (any part except
    computing), and `largest_share` its share. `ratio` is communication time over computing time.
    Cautions are those of `split`.
    """
    rows = split(on_several_nodes(curves)).reset_index(drop=True)
    seconds = rows[_SECONDS]
    shares = seconds.div(seconds.sum(axis=1), axis=0).set_axis(
        [f"{part}_share" for part in ("compute", *OVERHEADS)], axis=1
    )
    others = shares[[f"{part}_share" for part in OVERHEADS]]
    return rows.join(shares).assign(
        largest=others.idxmax(axis=1).astype("str").str.removesuffix("_share")
        if len(others)
        else "",
        largest_share=others.max(axis=1),
        ratio=rows["communicate_s"] / rows["compute_s"],
    )


def split(points: pd.DataFrame) -> pd.DataFrame:
    """Return the points that have split steps, with cautions where the parts say little.

    There are two cautions: the sum of the parts exceeds the step by more than `SPLIT_LONGER`, or
    emulated steps are shorter than `SHORT_S`. In such short steps, whether a part falls into a
    node's time slice on the core, or between two slices, is random. Communication time is unknown
    (NaN) if a strategy sends bytes but does not time communication separately.
    """
    rows = points.dropna(subset="compute_s")
    not_timed = (rows["communicate_s"] == 0) & (rows["bytes_sent_per_step"] > 0)
    rows = rows.assign(communicate_s=rows["communicate_s"].mask(not_timed))
    longer = rows[_SECONDS].sum(axis=1) / rows["step_time_s"] > 1 + SPLIT_LONGER
    cautions = (
        rows["flags"],
        longer.map({True: "its parts take far longer than the step", False: ""}),
        too_short_for_parts(rows).map(
            {True: "its steps are too short for parts of them", False: ""}
        ),
    )
    return rows.assign(flags=[join_cautions(*each) for each in zip(*cautions, strict=True)])


def too_short_for_parts(rows: pd.DataFrame) -> "pd.Series[bool]":
    """Return which rows are emulated steps shorter than `SHORT_S`."""
    return rows["kind"].str.startswith("emulated") & (rows["step_time_s"] < SHORT_S)


def accuracies_beside_one(tables: Tables) -> pd.DataFrame:
    """Return the accuracies of trainings on several nodes and on one node, ours and published.

    Ours trained whole epochs, with the same number of epochs and the same batch per worker on one
    node. `accuracy` is that of the test examples if both trainings have one, else of the training
    examples. `accuracy_one` is the one on one node, and `change` the difference. `label` is the
    kind. `cell_id` is empty for published trainings. Cautions are kept only for asynchronous
    strategies: what disturbs step times does not change the accuracy of synchronous ones.
    """
    found = [_our_accuracies(tables), _published_points(tables), _published_runs(tables)]
    known = [rows.dropna(axis=1, how="all") for rows in found if len(rows)]
    columns = [*_SCORED, *(f"{name}_one" for name in _OF_ONE)]
    rows = (pd.concat(known) if known else pd.DataFrame()).reindex(columns=columns)
    tested = rows["test_accuracy"].notna() & rows["test_accuracy_one"].notna()
    accuracy = rows["test_accuracy"].where(tested, rows["train_accuracy"])
    one = rows["test_accuracy_one"].where(tested, rows["train_accuracy_one"])
    scored = rows.assign(
        accuracy=accuracy,
        accuracy_one=one,
        change=accuracy - one,
        train_change=rows["train_accuracy"] - rows["train_accuracy_one"],
        batch_per_worker=rows["batch_per_worker"].astype("Int64"),
        of=tested.map({True: "test", False: "training"}),
        cell_id=rows["cell_id"].astype("str").fillna(""),
        cell_id_one=rows["cell_id_one"].astype("str").fillna(""),
        flags=rows["flags"].astype("str").fillna(""),
    )
    return scored.dropna(subset="change").reset_index(drop=True)


_OF_ONE = ["train_accuracy", "test_accuracy", "cell_id", "repeats"]
_SCORED = [
    *("study", "experiment", "model", "dataset", "strategy", "batch_per_worker", "nodes", "epochs"),
    *("label", "flags", *_OF_ONE),
]


def _our_accuracies(tables: Tables) -> pd.DataFrame:
    done = tables["cells"].loc[tables["cells"]["whole_epochs"], ["cell_id", "epochs"]]
    rows = tables["curves"][tables["curves"]["whole_epochs"]].merge(done, "inner", "cell_id")
    rows = with_labels(rows[~on_devices(rows)])
    rows = rows.assign(
        label=rows["accuracy_label"], flags=rows["flags"].where(never_wait(rows), "")
    )
    at = [*GROUP, "cluster", "kind", "data_origin", "batch_per_worker", "epochs"]
    return _beside_one(rows, at)


def _published_points(tables: Tables) -> pd.DataFrame:
    rows = tables["published"].rename(columns={"training_accuracy": "train_accuracy"})
    rows = rows.assign(strategy="published", label=rows["kind"])
    return _beside_one(rows, ["study", "model", "dataset", "batch_per_worker", "epochs"])


def _published_runs(tables: Tables) -> pd.DataFrame:
    rows = tables["published_runs"].rename(columns={"training_accuracy": "train_accuracy"})
    return _beside_one(rows.assign(label=rows["kind"]), ["study", "model", "dataset", "epochs"])


def _beside_one(rows: pd.DataFrame, at: list[str]) -> pd.DataFrame:
    """Return the rows on several nodes, with the accuracies on one node that match in `at`."""
    rows = rows.reindex(columns=list(dict.fromkeys([*rows.columns, *_OF_ONE])))
    one, several = rows[rows["nodes"] == 1], rows[rows["nodes"] > 1]
    single = one.loc[one["strategy"] == SINGLE, [*at, *_OF_ONE]]
    return _join_one_node(several, single, one, at, "strategy")


def _join_one_node(
    rows: pd.DataFrame,
    single: pd.DataFrame,
    own: pd.DataFrame,
    at: list[str],
    name: str,
) -> pd.DataFrame:
    """Return the rows with the columns of their one-node reference, which end in `_one`.

    The reference is the row of `single` that matches in `at`, or else the row of `own` that matches
    in `at` and `name`.
    """
    values = [column for column in single if column not in at]
    single = single.drop_duplicates(at).assign(is_single=True)
    own = own.drop_duplicates([*at, name])[[*at, name, *values]]
    rows = rows.merge(single, "left", at, suffixes=("", "_single"))
    rows = rows.merge(own, "left", [*at, name], suffixes=("", "_one"))
    by_single = rows.pop("is_single").notna()
    for value in values:
        rows[f"{value}_one"] = rows.pop(f"{value}_single").where(by_single, rows[f"{value}_one"])
    return rows


def energies(tables: Tables) -> pd.DataFrame:
    """Return the energy per thousand examples on several nodes and on one node.

    There is one row per point, with medians over launches: `energy_j`, `energy_one_j` on one node,
    and their `ratio`. `label` is the kind of both: `estimated` unless both were metered.
    """
    cells = tables["cells"]
    cells = cells[(cells["status"] == "ok") & cells["energy_j"].notna() & (cells["steps"] > 0)]
    examples = (cells["steps"] * cells["global_batch"]).astype("float64")
    cells = cells.assign(energy_j=1000 * cells["energy_j"] / examples)
    points = cells.groupby(CURVE_KEY, as_index=False).agg(
        energy_j=("energy_j", "median"),
        label=("energy_kind", "min"),  # "estimated" if any launch is
        flags=("flags", cautions_of_launches),
        exchange=("exchange", "first"),
        cell_id=("cell_id", "first"),
        repeats=("cell_id", "size"),
    )
    one = points[points["strategy"] == SINGLE]
    one = one.drop(columns=["strategy", "nodes", "exchange", "cell_id"])
    several = points[(points["nodes"] > 1) & ~on_devices(points)]
    rows = several.merge(one, "inner", ONE_NODE_KEY, suffixes=("", "_one"))
    label = rows["label"].where(rows["label"] == rows["label_one"], "estimated")
    return rows.assign(
        label=label,
        flags=_with_flags_of_one(rows),
        energy_one_j=rows["energy_j_one"],
        ratio=rows["energy_j"] / rows["energy_j_one"],
    )

"""Select and join rows of tables for charts and pages. Data frames in, data frames out."""

import pandas as pd

from nodewise.core.exchanges import exchanges_where
from nodewise.core.units import kind_label
from nodewise.results.columns import AXES, CURVE_KEY, PARTS, SINGLE
from nodewise.results.curve_points import lines_over_nodes
from nodewise.results.published import PUBLISHED_STRATEGY

Tables = dict[str, pd.DataFrame]

GROUP = ["study", "experiment", "model", "dataset"]
MODEL = ["study", "model", "dataset"]
FEW_STRATEGIES = 2  # up to this many, besides `single`, get a chart each
POINT = ["batch_per_worker", "nodes"]
LINE = [*MODEL, "batch_per_worker"]
LAUNCHES = ["repeats", "flags", "cell_id"]
TIMED_STEP = ["step_time_s", "step_time_low_s", "step_time_high_s"]  # with its interval
_COMPARED = [*GROUP, "kind", "batch_per_worker"]


def with_labels(rows: pd.DataFrame) -> pd.DataFrame:
    """Return `rows` with names of the kinds of their numbers: `label` and `accuracy_label`."""
    return rows.assign(label=_labels(rows), accuracy_label=_labels(rows, of_accuracy=True))


def never_wait(points: pd.DataFrame) -> "pd.Series[bool]":
    """Return which points have workers that do not wait for each other."""
    return points["exchange"].isin(exchanges_where(lambda exchange: exchange.waits == "never"))


def scaling_lines(curves: pd.DataFrame) -> pd.DataFrame:
    """Return the lines of all strategies over nodes, each from one node on if `single` was run."""
    rows = lines_over_nodes(curves, curves["strategy"] != SINGLE)
    return rows.sort_values([*GROUP, "line", *POINT]).reset_index(drop=True)


def training_times(tables: Tables) -> pd.DataFrame:
    """Return training times, ours and published, of every measured model.

    Our times are for the number of epochs of the published study, or else of the cell (1 if the
    cell measured steps). If the cell did not train exactly these epochs, the time is projected: the
    measured step time × their steps. The kind then says so. `speedup` is that of the curves, and
    for published times relative to the published time on one node.
    """
    ours = _trainings(tables)
    ours["kind"] = _labels(ours, ours["projected"])
    values = ["epochs", "seconds", "low_seconds", "high_seconds", "speedup", "projected"]
    return _with_published(ours, ours, tables, values)


def accuracies(tables: Tables) -> pd.DataFrame:
    """Return training accuracies after whole epochs, ours and published.

    Published accuracies are compared only with cells that trained the same number of epochs. Cells
    that measured steps have no accuracy. Ours are medians over launches; `least` and `most` are
    their range if there are several. A busy machine (`flags`) changes what is learned only where
    workers do not wait for each other.
    """
    done = tables["cells"][(tables["cells"]["status"] == "ok") & tables["cells"]["whole_epochs"]]
    ends = done.groupby(CURVE_KEY)["train_accuracy"].agg(least="min", most="max", launches="size")
    several = ends[ends["launches"] > 1].drop(columns="launches").reset_index()
    all_ours = _trainings(tables)
    ours = all_ours[~all_ours["projected"]].merge(several, "left", CURVE_KEY)
    ours = ours.assign(kind=_labels(ours, of_accuracy=True), accuracy=ours["train_accuracy"])
    ours = ours.assign(flags=ours["flags"].where(never_wait(ours), ""))
    values = ["epochs", "accuracy", "least", "most", "test_accuracy"]
    return _with_published(ours, all_ours, tables, values)


def published_and_ours(tables: Tables) -> pd.DataFrame:
    """Return every published point: published and our time and accuracy, and the ratio of times.

    Ours are measured with the strategy of the published study. `label` and `accuracy_label` are the
    kinds of our numbers, empty where there are none. All our times of a model and batch are from
    one experiment, so that they are comparable: see `_of_one_experiment`.
    """
    where = [*MODEL, *POINT]
    published = tables["published"]
    times, scores = (
        rows[rows["line"] == PUBLISHED_STRATEGY].merge(published[where])
        for rows in (training_times(tables), accuracies(tables))
    )
    times = _of_one_experiment(times).rename(columns={"seconds": "seconds_ours", "kind": "label"})
    times = times[[*where, "experiment", "seconds_ours", "label", "flags", "cell_id"]]
    ours = {"accuracy": "accuracy_ours", "kind": "accuracy_label"}
    scores = scores.drop_duplicates(where)[[*where, *ours]].rename(columns=ours)
    theirs = {"training_time_s": "seconds_published", "training_accuracy": "accuracy_published"}
    rows = published.rename(columns=theirs).merge(times, "left", where).merge(scores, "left", where)
    ratio = rows["seconds_ours"] / rows["seconds_published"]
    return rows.assign(ratio=ratio, flags=rows["flags"].fillna(""))


def _of_one_experiment(times: pd.DataFrame) -> pd.DataFrame:
    """Return the times of one experiment for each model and batch.

    It is the one with the most points, then the fewest cautions, then no projection.
    """
    key = [*LINE, "experiment", "cluster", "kind"]
    grouped = times.assign(caution=times["flags"] != "").groupby(key, as_index=False)
    ranked = grouped.agg({"nodes": "nunique", "caution": "sum", "projected": "max"})
    rank = ["nodes", "caution", "projected"]
    ranked = ranked.sort_values(rank, ascending=[False, True, True], kind="stable")
    return times.merge(ranked.drop_duplicates(LINE)[key]).drop_duplicates([*LINE, "nodes"])


def published_runs_and_ours(tables: Tables, study: str) -> pd.DataFrame:
    """Return published trainings of a study and ours, by strategy and number of nodes.

    There is one row per model, strategy, number of nodes, batch and experiment of ours, and one row
    per published training without a counterpart. `seconds_ours` is for the number of epochs of the
    published training, or else of the study. `label` says if it is a projection.
    """
    at = ["model", "dataset", "strategy", "nodes"]
    ours = _trainings(tables)
    ours = ours[ours["study"] == study].drop_duplicates([*at, "experiment", "batch_per_worker"])
    theirs = tables["published_runs"]
    theirs = theirs[theirs["study"] == study].drop(columns="study")
    rows = theirs.merge(ours.drop(columns="epochs"), "outer", at, suffixes=("_published", ""))
    asked = rows["epochs"].fillna(theirs["epochs"].max() if len(theirs) else 1)
    ours = rows[rows["step_time_s"].notna()]
    whole = ours["whole_epochs"].eq(True) & (ours["trained"] == asked[ours.index])
    return rows.assign(
        epochs=asked.astype("int64"),
        seconds_ours=rows["epoch_time_s"] * asked,
        label=_labels(ours, ~whole),
        speed_label=_labels(ours),
        accuracy_label=_labels(ours, of_accuracy=True),
        flags=rows["flags"].fillna(""),
        printed_name=rows["printed_name"].fillna(""),
    ).sort_values([*at, "batch_per_worker"], ignore_index=True)


def step_parts(curves: pd.DataFrame) -> pd.DataFrame:
    """Return the split steps in long form: one row per curve point and part, in seconds.

    The wait for examples (`input`) is that of the timed steps, because split steps get their
    batches in advance.
    """
    rows = scaling_lines(curves)
    return _parts(rows.assign(kind=_labels(rows)), "line")


def compared_strategies(curves: pd.DataFrame) -> pd.DataFrame:
    """Return the curve points of experiments that compare several strategies.

    These have more than `FEW_STRATEGIES` strategies at the same batch, and need a common chart.
    """
    others = curves[curves["strategy"] != SINGLE].groupby(_COMPARED)["strategy"]
    several = others.transform("nunique")
    compared = curves.loc[several[several > FEW_STRATEGIES].index, _COMPARED].drop_duplicates()
    rows = curves.merge(compared, "inner", _COMPARED)
    return rows.assign(kind=_labels(rows))


def compared_parts(curves: pd.DataFrame) -> pd.DataFrame:
    """Return the split steps of `compared_strategies` in long form.

    They are on the number of nodes that most strategies have in common.
    """
    rows = compared_strategies(curves)
    rows = rows[rows["compute_s"].notna() & (rows["nodes"] > 1)]
    at = [*_COMPARED, "nodes"]
    counts = rows.groupby(at)["strategy"].nunique().rename("shared_by").reset_index()
    shared = counts.sort_values(["shared_by", "nodes"]).groupby(_COMPARED).tail(1)
    return _parts(rows.merge(shared[at], "inner", at), "strategy")


def _parts(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return curve points in long form, one row per part. `column` has their strategies.

    Each row also has the time of the point's timed steps, which are not split: `TIMED_STEP`. If
    several nodes have a communication time of 0, they communicate while computing. There is no row
    for their communication then.
    """
    parts = {f"{part}_s": part for part in ("input", *PARTS)}
    rows = rows[rows["compute_s"].notna()].rename(columns=parts)
    within = (rows["nodes"] > 1) & (rows["communicate"] == 0)
    rows = rows.assign(communicate=rows["communicate"].mask(within))
    keep = [*GROUP, column, *POINT, "kind", *TIMED_STEP, *LAUNCHES]
    long = rows.melt(keep, [*parts.values()], "part", "seconds")
    return long.dropna(subset="seconds", ignore_index=True)


def speedups(curves: pd.DataFrame) -> pd.DataFrame:
    """Return speed-up and efficiency of the lines with several node counts and a reference."""
    rows = scaling_lines(curves).dropna(subset="speedup")
    rows["kind"] = _labels(rows)
    several = rows.groupby([*GROUP, "line"])["nodes"].transform("nunique") > 1
    return rows[several].reset_index(drop=True)


def _trainings(tables: Tables) -> pd.DataFrame:
    """Return the lines of the curves with the times of a training; see `training_times`.

    `epochs` is that of the published model, or else of the cell. `trained` is that of the cell.
    """
    key = [*AXES, "whole_epochs"]
    done = tables["cells"][tables["cells"]["status"] == "ok"]
    trained = done.groupby(key)["epochs"].max().rename("trained").reset_index()
    asked = tables["published"].groupby(MODEL)["epochs"].first().rename("asked").reset_index()
    rows = scaling_lines(tables["curves"]).merge(trained, "left", key).merge(asked, "left", MODEL)
    own = rows["trained"].where(rows["whole_epochs"], 1)
    rows["epochs"] = rows["asked"].fillna(own).astype("int64")
    for end in ("", "low_", "high_"):
        rows[f"{end}seconds"] = rows[f"epoch_time_{end}s"] * rows["epochs"]
    return rows.assign(projected=~rows["whole_epochs"] | (rows["trained"] != rows["epochs"]))


def _labels(
    rows: pd.DataFrame, projected: pd.Series | bool = False, *, of_accuracy: bool = False
) -> pd.Series:
    weights = rows["weights"] if of_accuracy else ""
    rows = rows[["kind", "data_origin"]].assign(weights=weights, projected=projected)
    labels = [kind_label(*of_kind, projected=bool(x)) for *of_kind, x in rows.to_numpy()]
    return pd.Series(labels, index=rows.index, dtype="str")


def _with_published(
    ours: pd.DataFrame, measured: pd.DataFrame, tables: Tables, values: list[str]
) -> pd.DataFrame:
    """Return our rows and the published ones of the models that we measured for the same study."""
    same = {"training_time_s": "seconds", "training_accuracy": "accuracy"}
    theirs = tables["published"].rename(columns=same)
    theirs = theirs.merge(measured[MODEL].drop_duplicates(), "inner", MODEL)
    one = theirs["seconds"].where(theirs["nodes"] == 1)
    alone = one.groupby([theirs[name] for name in LINE]).transform("first")
    empty = dict.fromkeys(("experiment", "cluster", "machine", "flags", "cell_id"), "")
    speedup = alone / theirs["seconds"]
    theirs = theirs.assign(**empty, line="published", projected=False, speedup=speedup)
    columns = [*GROUP, "cluster", "machine", "line", *POINT, *values, *LAUNCHES, "kind"]
    whole = {"repeats": "Int64", "epochs": "int64"}
    frames = [part.reindex(columns=columns).astype(whole) for part in (ours, theirs) if len(part)]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)

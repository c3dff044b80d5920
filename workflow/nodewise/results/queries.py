"""Tables -> what charts and pages show of them. Frames in, frames out; nothing is drawn here."""

from typing import Any

import pandas as pd

from nodewise.core.units import PROJECTED, kind_label
from nodewise.results.columns import AXES, CURVE_KEY, PARTS, SINGLE

Tables = dict[str, pd.DataFrame]

PUBLISHED_STRATEGY = "multi_worker_mirrored"  # of the points of the table `published`
GROUP = ["study", "experiment", "model", "dataset"]
MODEL = ["study", "model", "dataset"]
FEW_STRATEGIES = 2  # besides training on one node
POINT = ["batch_per_worker", "nodes"]
LAUNCHES = ["repeats", "flags", "cell_id"]
TIMED_STEP = ["step_time_s", "step_time_low_s", "step_time_high_s"]  # with its interval
_COMPARED = [*GROUP, "kind", "batch_per_worker"]


def with_labels(rows: pd.DataFrame) -> pd.DataFrame:
    """Return `rows` with what the kind of their numbers is called: `label`, `accuracy_label`."""
    return rows.assign(label=_labels(rows), accuracy_label=_labels(rows, of_accuracy=True))


def plain_training(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the points of one process without communication: the base of speed-ups."""
    return rows[(rows["strategy"] == SINGLE) & (rows["nodes"] == 1)]


def scaling_lines(curves: pd.DataFrame) -> pd.DataFrame:
    """Return the curves with a column `line`: the strategy whose line over the nodes a row is on.

    A strategy that was not measured on one node borrows the `single` point of its batch, so that
    its line starts there. A `single` point on no strategy's line is a line of its own.
    """
    at = [*GROUP, "cluster", "kind", "data_origin", "whole_epochs"]
    several = curves[curves["strategy"] != SINGLE].assign(line=lambda rows: rows["strategy"])
    single = curves[curves["strategy"] == SINGLE]
    lines = several[[*at, "batch_per_worker", "line"]].drop_duplicates()
    borrowed = single.merge(lines, "left", [*at, "batch_per_worker"])
    borrowed["line"] = borrowed["line"].fillna(SINGLE)
    rows = pd.concat([several, borrowed]).drop_duplicates([*at, "line", *POINT])
    return rows.sort_values([*GROUP, "line", *POINT]).reset_index(drop=True)


def training_times(tables: Tables) -> pd.DataFrame:
    """Return training times, ours and published, of every model that was measured.

    `speedup` of ours is the one of the curves; of what is published, against its own one node.

    Ours is over as many epochs as the study trained, or else over those of the cell (one, if it
    measured steps). Where a cell did not train just these epochs, its time is the measured step
    time multiplied by their steps, and its kind says so.
    """
    ours = _with_epochs(tables)
    published = tables["published"]
    ours = _with_asked(ours, published)
    own = ours["trained"].where(ours["whole_epochs"], 1)
    ours["epochs"] = ours["asked"].fillna(own).astype("int64")
    projected = ~ours["whole_epochs"] | (ours["trained"] != ours["epochs"])
    ours["kind"] = _labels(ours, projected)
    for end in ("", "low_", "high_"):
        ours[f"{end}seconds"] = ours[f"epoch_time_{end}s"] * ours["epochs"]
    theirs = _published_of(ours, published).rename(columns={"training_time_s": "seconds"})
    values = ["epochs", "seconds", "low_seconds", "high_seconds", "speedup"]
    return _with_published(ours, _alone(theirs), values)


def accuracies(tables: Tables) -> pd.DataFrame:
    """Return training accuracies after whole epochs, ours and published.

    Beside a published accuracy stand only cells that trained as many epochs; measured-steps cells
    have no accuracy to show. Ours is the median over launches; of several, `least` and `most` are
    the ends.
    """
    lines = _with_epochs(tables).merge(_ends_of_accuracy(tables["cells"]), "left", CURVE_KEY)
    ours = lines[lines["whole_epochs"]].rename(columns={"trained": "epochs"})
    ours["kind"] = _labels(ours, of_accuracy=True)
    ours["accuracy"] = ours["train_accuracy"]
    published = tables["published"]
    ours = _with_asked(ours, published)
    ours = ours[ours["asked"].isna() | (ours["asked"] == ours["epochs"])]
    theirs = _published_of(lines, published).rename(columns={"training_accuracy": "accuracy"})
    return _with_published(ours, theirs, ["epochs", "accuracy", "least", "most", "test_accuracy"])


def _ends_of_accuracy(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the least and the most training accuracy of each point of several launches."""
    done = cells[(cells["status"] == "ok") & cells["whole_epochs"]]
    launches = done.groupby(CURVE_KEY)["train_accuracy"]
    ends = launches.agg(least="min", most="max", launches="size").reset_index()
    return ends[ends["launches"] > 1].drop(columns="launches")


def published_and_ours(tables: Tables) -> pd.DataFrame:
    """Return every published point: time and accuracy, theirs and ours, and the ratio of times.

    `label` and `accuracy_label` say the kinds of our numbers; both are empty where we have none.
    Ours are of the strategy that the study trained. All times of a model and batch are of one
    experiment, so that they compare: of the one that has most of its points, then fewest cautions,
    then no projection. An accuracy of another experiment than the time says so in `experiment`.
    """
    where = [*MODEL, *POINT]
    times, scores = (
        rows[rows["line"] == PUBLISHED_STRATEGY]
        for rows in (training_times(tables), accuracies(tables))
    )
    times = times[times["kind"] != "published"].merge(tables["published"][where])
    times = _of_one_experiment(times)
    ours = times[[*where, "experiment", "seconds", "kind", "flags", "cell_id"]].rename(
        columns={"seconds": "seconds_ours", "kind": "label"}
    )
    scores = scores.drop_duplicates(where)
    scores = scores[[*where, "experiment", "accuracy", "kind"]].rename(
        columns={
            "experiment": "scored",
            "accuracy": "accuracy_ours",
            "kind": "accuracy_label",
        }
    )
    rows = tables["published"].rename(
        columns={"training_time_s": "seconds_published", "training_accuracy": "accuracy_published"}
    )
    rows = rows.merge(ours, "left", where).merge(scores, "left", where)
    return rows.assign(
        ratio=rows["seconds_ours"] / rows["seconds_published"],
        experiment=[
            _experiments(*both)
            for both in rows[["experiment", "scored"]].fillna("").itertuples(index=False)
        ],
        flags=rows["flags"].fillna(""),
    )


def _of_one_experiment(times: pd.DataFrame) -> pd.DataFrame:
    """Return the times of one experiment for each model and batch: see `published_and_ours`."""
    line, one = [*MODEL, "batch_per_worker"], ["experiment", "cluster", "kind"]
    cautions = times.assign(
        cautions=times["flags"] != "",
        projected=times["kind"].str.contains(PROJECTED, regex=False),
    )
    counted = cautions.groupby([*line, *one], as_index=False).agg(
        {"nodes": "nunique", "cautions": "sum", "projected": "max"}
    )
    order = ["nodes", "cautions", "projected"]
    counted = counted.sort_values(order, ascending=[False, True, True], kind="stable")
    best = counted.drop_duplicates(line)[[*line, *one]]
    return times.merge(best).drop_duplicates([*line, "nodes"])


def _experiments(timed: str, scored: str) -> str:
    return (
        f"{timed}; accuracy: {scored}" if timed and scored not in ("", timed) else timed or scored
    )


def improvements(tables: Tables) -> pd.DataFrame:
    """Return the share of its training time on one node that each model saves on more.

    As the NTUA study draws it (Figures 26 and 27): a model at the batch at which it saved most of
    its published time on the most nodes, and the mean over all models of a kind, whose `model` is
    empty, if all were measured. Ours are of one experiment each, as in `published_and_ours`.
    """
    published = _alone(tables["published"].rename(columns={"training_time_s": "seconds"}))
    published = published[published["nodes"] > 1].assign(saved=lambda rows: 1 - 1 / rows["speedup"])
    most = published.sort_values(["nodes", "saved"]).drop_duplicates(MODEL, keep="last")
    published = published.merge(most[[*MODEL, "batch_per_worker"]])
    ours = training_times(tables).merge(published[[*MODEL, *POINT]])
    ours = ours[ours["line"] == PUBLISHED_STRATEGY].dropna(subset="speedup")
    ours = _of_one_experiment(ours).assign(saved=lambda rows: 1 - 1 / rows["speedup"])
    rows = pd.concat([_as_ours(published), ours], ignore_index=True)
    rows = rows[["study", "kind", "model", *POINT, "saved", "experiment", *LAUNCHES]]
    of_all = rows.groupby(["study", "kind", "nodes"]).agg(
        saved=("saved", "mean"), models=("model", "nunique")
    )
    mean = of_all[of_all["models"] == len(most)].drop(columns="models").reset_index()
    texts = dict.fromkeys(("model", "experiment", "flags", "cell_id"), "")
    rows = pd.concat([rows, mean.assign(**texts)], ignore_index=True)
    return rows.astype({"batch_per_worker": "Int64"})


def published_runs_and_ours(tables: Tables, study: str) -> pd.DataFrame:
    """Return what a study's strategies gave on each number of nodes, published and ours.

    One row per model, strategy, number of nodes, batch and experiment of ours, and one for each
    published training that we have no counterpart of. `seconds_ours` is for as many epochs as the
    study trained, or else for one; `label` says where that is a projection.
    """
    at = ["model", "dataset", "strategy", "nodes"]
    ours = _with_epochs(tables)
    ours = ours[ours["study"] == study].drop_duplicates([*at, "experiment", "batch_per_worker"])
    theirs = tables["published_runs"]
    theirs = theirs[theirs["study"] == study]
    rows = theirs.drop(columns="study").merge(ours, "outer", at, suffixes=("_published", ""))
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

    The wait for examples comes from the timed steps: split ones are fed beforehand.
    """
    rows = scaling_lines(curves)
    return _parts(rows.assign(kind=_labels(rows)), "line")


def compared_strategies(curves: pd.DataFrame) -> pd.DataFrame:
    """Return the curve points of experiments that compare several strategies.

    That is more than `FEW_STRATEGIES`, at the same batch: each on a chart of its own would hide
    what is compared.
    """
    others = curves[curves["strategy"] != SINGLE].groupby(_COMPARED)["strategy"]
    several = others.transform("nunique")
    compared = curves.loc[several[several > FEW_STRATEGIES].index, _COMPARED].drop_duplicates()
    rows = curves.merge(compared, "inner", _COMPARED)
    return rows.assign(kind=_labels(rows))


def compared_parts(curves: pd.DataFrame) -> pd.DataFrame:
    """Return the split steps of these points in long form, on as many nodes as most share."""
    rows = compared_strategies(curves)
    rows = rows[rows["compute_s"].notna() & (rows["nodes"] > 1)]
    at = [*_COMPARED, "nodes"]
    counts = rows.groupby(at)["strategy"].nunique().rename("shared_by").reset_index()
    shared = counts.sort_values(["shared_by", "nodes"]).groupby(_COMPARED).tail(1)
    return _parts(rows.merge(shared[at], "inner", at), "strategy")


def _parts(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return curve points in long form, one row per part; `column` is that of their strategies.

    Each row has the time of its point's timed steps, too, which are not split: `TIMED_STEP`.
    Nodes that are said to communicate for no time at all do so within computing: no row claims it.
    """
    parts = {f"{part}_s": part for part in ("input", *PARTS)}
    rows = rows[rows["compute_s"].notna()].rename(columns=parts)
    within = (rows["nodes"] > 1) & (rows["communicate"] == 0)
    rows = rows.assign(communicate=rows["communicate"].mask(within))
    keep = [*GROUP, column, *POINT, "kind", *TIMED_STEP, *LAUNCHES]
    return rows.melt(keep, [*parts.values()], "part", "seconds").dropna(
        subset="seconds", ignore_index=True
    )


def settings(tables: Tables) -> pd.DataFrame:
    """Return the split steps on several nodes, where a model was measured under several settings.

    In long form, as `step_parts`, with `setting`: what a node and its input are, in words. Only
    batches that every setting of a node count has, all of one machine: of the one with the most.
    """
    cells = tables["cells"].groupby("experiment")[["input", "preprocessing_nodes"]].first()
    inputs = cells.apply(lambda row: _input_in_words(*row), axis=1)
    rows = tables["curves"].assign(
        setting=lambda rows: rows["cluster"] + rows["experiment"].map(inputs).fillna("")
    )
    rows = rows[(rows["nodes"] > 1) & ~rows["whole_epochs"] & rows["compute_s"].notna()]
    at = ["model", "dataset", "strategy", "nodes"]
    # what several experiments measured is shown once: without a caution, of the most launches
    rows = rows.assign(caution=rows["flags"] != "", fewer=-rows["repeats"])
    rows = rows.sort_values(["caution", "fewer"], kind="stable")
    rows = rows.drop_duplicates([*at, "machine", "setting", "batch_per_worker"])
    known = rows.groupby([*at, "machine"])["setting"].transform("nunique")
    rows = rows.assign(known=known).sort_values("known", ascending=False, kind="stable")
    rows = rows[rows["machine"] == rows.groupby(at)["machine"].transform("first")]
    known = rows["known"]
    shared = rows.groupby([*at, "batch_per_worker"])["setting"].transform("nunique")
    parts = step_parts(rows[(known > 1) & (shared == known)])
    named = rows[["experiment", *at, "setting"]].drop_duplicates()
    named = named.rename(columns={"strategy": "line"})
    return parts.merge(named, "left", ["experiment", "model", "dataset", "line", "nodes"])


def _input_in_words(how: str, preprocessing_nodes: int) -> str:
    """Return what to add to a setting: nothing for the usual input, each node its own shard."""
    if how == "service":
        return f", fed by {preprocessing_nodes} more"
    return ", unsharded" if how == "unsharded" else ""


def speedups(curves: pd.DataFrame) -> pd.DataFrame:
    """Return speed-up and efficiency of each line that has a point on one node."""
    rows = scaling_lines(curves).dropna(subset="speedup")
    rows["kind"] = _labels(rows)
    several = rows.groupby([*GROUP, "line"])["nodes"].transform("nunique") > 1
    return rows[several].reset_index(drop=True)


def epochs(tables: Tables) -> pd.DataFrame:
    """Return the `epochs` table of the cells that trained whole epochs, kinds as labels."""
    whole = tables["cells"].loc[tables["cells"]["whole_epochs"], "cell_id"]
    rows = tables["epochs"][tables["epochs"]["cell_id"].isin(whole)].reset_index(drop=True)
    return rows.assign(kind=_labels(rows, of_accuracy=True))


def _with_epochs(tables: Tables) -> pd.DataFrame:
    """Return the curves' lines, with the epochs that their cells trained."""
    key = [*AXES, "whole_epochs"]
    done = tables["cells"][tables["cells"]["status"] == "ok"]
    trained = done.groupby(key)["epochs"].max().rename("trained").reset_index()
    return scaling_lines(tables["curves"]).merge(trained, "left", key)


def _with_asked(ours: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Return our rows with `asked`, the epochs that the study trained their model; NaN if none."""
    asked = published.groupby(MODEL)["epochs"].first().rename("asked").reset_index()
    return ours.merge(asked, "left", MODEL)


def _labels(
    rows: pd.DataFrame, projected: pd.Series | bool = False, *, of_accuracy: bool = False
) -> pd.Series:
    rows = rows[["kind", "data_origin"]].assign(
        weights=rows["weights"] if of_accuracy else "", projected=projected
    )
    labels = [kind_label(*of_kind, projected=bool(x)) for *of_kind, x in rows.to_numpy()]
    return pd.Series(labels, index=rows.index, dtype="str")


def _published_of(ours: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Return the published rows of the models that we measured for the same study."""
    return published.merge(ours[MODEL].drop_duplicates(), "inner", MODEL)


def _alone(published: pd.DataFrame) -> pd.DataFrame:
    """Return published rows with `speedup`: how many times the one on one node took as long."""
    at = [*MODEL, "batch_per_worker"]
    one = published.loc[published["nodes"] == 1, [*at, "seconds"]]
    alone = published[at].merge(one, "left", at)["seconds"].to_numpy()
    return published.assign(speedup=alone / published["seconds"])


def _as_ours(published: pd.DataFrame) -> pd.DataFrame:
    """Return published rows with the columns of ours."""
    ours = dict.fromkeys(("experiment", "cluster", "machine", "flags", "cell_id"), "")
    return published.assign(**ours, line="published")


def _with_published(ours: pd.DataFrame, theirs: pd.DataFrame, values: list[str]) -> pd.DataFrame:
    theirs = _as_ours(theirs)
    columns = [*GROUP, "cluster", "machine", "line", *POINT, *values, *LAUNCHES, "kind"]
    whole: dict[str, Any] = {"repeats": "Int64", "epochs": "int64"}
    frames = [part.reindex(columns=columns).astype(whole) for part in (ours, theirs) if len(part)]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)

"""Tables -> what charts and pages show of them. Frames in, frames out; nothing is drawn here."""

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.core.units import PROJECTED, kind_label
from nodewise.predict.judge import LARGEST
from nodewise.predict.study import ALL_POINTS, OVERHEAD, OVERSUBSCRIBED
from nodewise.results.calibration import Calibration, read_calibration
from nodewise.results.cell_rows import OVERSUBSCRIBED as TOO_MANY_WORKERS
from nodewise.results.columns import AXES, PARTS, SINGLE
from nodewise.results.table_files import read_csv

Tables = dict[str, pd.DataFrame]

PUBLISHED_WAY = "multi_worker_mirrored"  # of the points of the table `published`
GROUP = ["study", "experiment", "model", "dataset"]
MODEL = ["study", "model", "dataset"]
NEAR = 10  # nodes that figures reach to, at least
FEW_WAYS = 2  # besides training on one node
POINT = ["batch_per_worker", "nodes"]
LAUNCHES = ["repeats", "flags", "cell_id"]
_COMPARED = [*GROUP, "kind", "batch_per_worker"]

CURVE = ["source", "study", "experiment", "model", "strategy", "curve"]


def read_overhead(overhead_dir: Path) -> Tables:
    """Read the tables that `nodewise.predict.study` wrote, as CSV.

    Raises:
        UserError: a file is missing, is not CSV, lacks a column, or holds an invalid value.
    """
    return {name: read_csv(overhead_dir / f"{name}.csv", OVERHEAD[name]) for name in OVERHEAD}


def read_calibrations(paths: Sequence[Path]) -> list[Calibration]:
    """Read what `nodewise calibrate` wrote, for one study or several, on one machine or several.

    Raises:
        UserError: a file is missing or invalid, or two are of one study on one machine.
    """
    found: dict[tuple[str, str], Calibration] = {}
    for path in paths:
        calibration = read_calibration(path)
        study, machine = calibration.study, calibration.provenance.cpu
        if (study, machine) in found:
            raise UserError(f"{path}: another one is of the study {study} on {machine}, too")
        found[study, machine] = calibration
    return list(found.values())


def with_labels(rows: pd.DataFrame) -> pd.DataFrame:
    """Return `rows` with what the kind of their numbers is called: `label`, `accuracy_label`."""
    return rows.assign(label=_labels(rows), accuracy_label=_labels(rows, of_accuracy=True))


def remembered(
    view: Callable[[pd.DataFrame], pd.DataFrame],
) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Have a view of a table remember its last answer: figures and pages ask it of the same one.

    A table is not to be changed in place.
    """
    last: list[pd.DataFrame] = []

    @wraps(view)
    def answer(table: pd.DataFrame) -> pd.DataFrame:
        if not last or last[0] is not table:
            last[:] = [table, view(table)]
        return last[1].copy(deep=False)

    return answer


@remembered
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
    asked = published.groupby(MODEL)["epochs"].first().rename("asked").reset_index()
    ours = ours.merge(asked, "left", MODEL)
    own = ours["trained"].where(ours["whole_epochs"], 1)
    ours["epochs"] = ours["asked"].fillna(own).astype("int64")
    projected = ~ours["whole_epochs"] | (ours["trained"] != ours["epochs"])
    ours["kind"] = _labels(ours, projected)
    for end in ("", "low_", "high_"):
        ours[f"{end}seconds"] = ours[f"epoch_time_{end}s"] * ours["epochs"]
    theirs = _published_of(ours, published).rename(columns={"training_time_s": "seconds"})
    values = ["epochs", "seconds", "low_seconds", "high_seconds", "speedup"]
    return _beside(ours, _alone(theirs), values)


def accuracies(tables: Tables) -> pd.DataFrame:
    """Return training accuracies after whole epochs, ours and published.

    Beside a published accuracy stand only cells that trained as many epochs; measured-steps cells
    have no accuracy to show.
    """
    ours = _with_epochs(tables)
    ours = ours[ours["whole_epochs"]].rename(columns={"trained": "epochs"})
    ours["kind"] = _labels(ours, of_accuracy=True)
    ours["accuracy"] = ours["train_accuracy"]
    published = tables["published"]
    asked = published.groupby(MODEL)["epochs"].first().rename("asked").reset_index()
    ours = ours.merge(asked, "left", MODEL)
    ours = ours[ours["asked"].isna() | (ours["asked"] == ours["epochs"])]
    theirs = _published_of(_with_epochs(tables), published)
    theirs = theirs.rename(columns={"training_accuracy": "accuracy"})
    return _beside(ours, theirs, ["epochs", "accuracy", "test_accuracy"])


def beside_published(tables: Tables) -> pd.DataFrame:
    """Return every published point: time and accuracy, theirs and ours, and the ratio of times.

    `label` and `accuracy_label` say the kinds of our numbers; both are empty where we have none.
    Ours are of the way that the study trained. All times of a model and batch are of one
    experiment, so that they compare: of the one that has most of its points, then fewest cautions,
    then no projection. An accuracy of another experiment than the time says so in `experiment`.
    """
    where = [*MODEL, *POINT]
    times, scores = (
        rows[rows["line"] == PUBLISHED_WAY] for rows in (training_times(tables), accuracies(tables))
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
    """Return the times of one experiment for each model and batch: see `beside_published`."""
    line, one = [*MODEL, "batch_per_worker"], ["experiment", "cluster", "kind"]
    cautions = times.assign(
        cautions=times["flags"] != "",
        projected=times["kind"].str.contains(PROJECTED, regex=False),
    )
    told = cautions.groupby([*line, *one], as_index=False).agg(
        {"nodes": "nunique", "cautions": "sum", "projected": "max"}
    )
    order = ["nodes", "cautions", "projected"]
    told = told.sort_values(order, ascending=[False, True, True], kind="stable")
    best = told.drop_duplicates(line)[[*line, *one]]
    return times.merge(best).drop_duplicates([*line, "nodes"])


def _experiments(timed: str, scored: str) -> str:
    return (
        f"{timed}; accuracy: {scored}" if timed and scored not in ("", timed) else timed or scored
    )


def improvements(tables: Tables) -> pd.DataFrame:
    """Return the share of its training time on one node that each model saves on more.

    As the NTUA study draws it (Figures 26 and 27): a model at the batch at which it saved most of
    its published time on the most nodes, and the mean over all models of a kind, whose `model` is
    empty, if all were measured. Ours are of one experiment each, as in `beside_published`.
    """
    published = _alone(tables["published"].rename(columns={"training_time_s": "seconds"}))
    published = published[published["nodes"] > 1].assign(saved=lambda rows: 1 - 1 / rows["speedup"])
    most = published.sort_values(["nodes", "saved"]).drop_duplicates(MODEL, keep="last")
    published = published.merge(most[[*MODEL, "batch_per_worker"]])
    ours = training_times(tables).merge(published[[*MODEL, *POINT]])
    ours = ours[ours["line"] == PUBLISHED_WAY].dropna(subset="speedup")
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


def beside_runs(tables: Tables, study: str) -> pd.DataFrame:
    """Return what a study's ways of training gave on each number of nodes, published and ours.

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


def ways(curves: pd.DataFrame) -> pd.DataFrame:
    """Return the curve points of experiments that compare several ways of training.

    That is more than `FEW_WAYS` of them, at the same batch: each on a chart of its own would hide
    what is compared.
    """
    others = curves[curves["strategy"] != SINGLE].groupby(_COMPARED)["strategy"]
    several = others.transform("nunique")
    compared = curves.loc[several[several > FEW_WAYS].index, _COMPARED].drop_duplicates()
    rows = curves.merge(compared, "inner", _COMPARED)
    return rows.assign(kind=_labels(rows))


def way_parts(curves: pd.DataFrame) -> pd.DataFrame:
    """Return the split steps of `ways` in long form, on as many nodes as most ways share."""
    rows = ways(curves)
    rows = rows[rows["compute_s"].notna() & (rows["nodes"] > 1)]
    at = [*_COMPARED, "nodes"]
    counts = rows.groupby(at)["strategy"].nunique().rename("ways").reset_index()
    shared = counts.sort_values(["ways", "nodes"]).groupby(_COMPARED).tail(1)
    return _parts(rows.merge(shared[at], "inner", at), "strategy")


def _parts(rows: pd.DataFrame, way: str) -> pd.DataFrame:
    """Return curve points in long form, one row per part; `way` says which column names the way.

    Nodes that are said to communicate for no time at all do so within computing: no row claims it.
    """
    parts = {f"{part}_s": part for part in ("input", *PARTS)}
    rows = rows[rows["compute_s"].notna()].rename(columns=parts)
    within = (rows["nodes"] > 1) & (rows["communicate"] == 0)
    rows = rows.assign(communicate=rows["communicate"].mask(within))
    keep = [*GROUP, way, *POINT, "kind", *LAUNCHES]
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


def with_launches(predictions: pd.DataFrame, curves: pd.DataFrame) -> pd.DataFrame:
    """Return the predictions; where a point of ours was observed, with its launches and a cell."""
    lines = pd.concat([scaling_lines(curves), curves.assign(line=curves["strategy"])])
    lines = lines.drop(columns="strategy").rename(columns={"line": "strategy", "kind": "source"})
    at = ["source", "study", "experiment", "model", "strategy", *POINT]
    rows = predictions.merge(lines.drop_duplicates(at)[[*at, *LAUNCHES]], "left", at)
    observed = rows["observed_s"].notna()
    return rows.assign(
        repeats=rows["repeats"].where(observed).astype("Int64"),
        flags=rows["flags"].where(observed).fillna(""),
        cell_id=rows["cell_id"].where(observed).fillna(""),
    )


def with_trials(overhead: Tables) -> pd.DataFrame:
    """Return the predictions, and `held_out` beside them: what laws gave for points not shown."""
    predictions = overhead["predictions"]
    held = held_out(overhead["trials"]).rename(columns={"predicted_s": "fitted_s"})
    crowded = predictions["scenario"] == OVERSUBSCRIBED
    trials = held.assign(beyond=True, held_out=True)
    return pd.concat([predictions.assign(held_out=crowded), trials], ignore_index=True)


def near(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of up to ten nodes, or up to the most that were measured of their curve."""
    measured = predictions["nodes"].where(predictions["observed_s"].notna())
    most = measured.groupby(predictions["curve"]).transform("max")
    return predictions[predictions["nodes"] <= most.clip(lower=NEAR)]


def fit_roles(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return what the figure of a fit shows, told apart by `role`.

    `fitted` and `predicted` are points of the line, the latter on more nodes than any point it was
    fitted to; `observed` are the observed points, `held out` what a law gave for points that it
    was not shown. `flags` says what observed points call for caution about: theirs, or, where
    the predictions have none, that there were more workers than cores.

    Args:
        predictions: as `with_trials` or `with_launches` returns them.
    """
    lines = full_fit(predictions)
    lines["role"] = lines["beyond"].map({True: "predicted", False: "fitted"})
    crowded = predictions["scenario"] == OVERSUBSCRIBED
    told_of = crowded.map({True: TOO_MANY_WORKERS, False: ""})
    own = predictions.get("flags", told_of)
    rows = predictions.assign(flags=own.mask(own == "", told_of))
    told = crowded | (rows["scenario"] == ALL_POINTS)
    points = rows[told].dropna(subset="observed_s").assign(role="observed")
    held = rows[rows["held_out"] & ~told].assign(role="held out")
    return pd.concat([lines.assign(flags=""), points, held], ignore_index=True)


def held_out(trials: pd.DataFrame) -> pd.DataFrame:
    """Return what a way's own law gave for the largest node counts, fitted to all smaller ones."""
    return trials[trials["own"] & (trials["scenario"] == LARGEST)]


def full_fit(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return the fits to all points."""
    return predictions[predictions["scenario"] == ALL_POINTS].copy()


def coefficients_of(fits: pd.DataFrame, curve: str) -> pd.DataFrame:
    """Return the coefficients of a curve, and those that it shares with others of its fits.

    Curves of one link have different fits where what their law takes for known differs.
    """
    of_fit = ["link", "law", "settings"]
    own = fits["curve"] == curve
    mine = fits.loc[own, of_fit].drop_duplicates()
    shared = fits[of_fit].merge(mine, "left", indicator=True)["_merge"] == "both"
    return fits[own | (shared.to_numpy() & (fits["curve"] == ""))]


def speedup_roles(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return `fit_roles` without what was held out, with `examples_per_s` and `speedup` by it.

    The speed-up of an observed point is against the observed point on one node, that of the line
    against the line. A curve without either has none.
    """
    rows = fit_roles(predictions)
    rows = rows[rows["role"] != "held out"]
    seconds = rows["observed_s"].where(rows["role"] == "observed", rows["fitted_s"])
    rows = rows.assign(seconds=seconds, observed=rows["role"] == "observed")
    at = ["curve", "batch_per_worker", "observed"]
    one = rows.loc[rows["nodes"] == 1, [*at, "seconds"]]
    rows = rows.merge(one, "left", at, suffixes=("", "_one"))
    rows["speedup"] = rows["nodes"] * rows["seconds_one"] / rows["seconds"]
    rows["examples_per_s"] = rows["nodes"] * rows["batch_per_worker"] / rows["seconds"]
    return rows.dropna(subset="speedup").reset_index(drop=True)


def reach(predictions: pd.DataFrame, optima: pd.DataFrame) -> pd.DataFrame:
    """Return `speedup_roles`, with the 90 % interval of the lines' speed-ups: `low`, `high`.

    Args:
        predictions: as `with_trials` returns them.
        optima: the table of that name.
    """
    rows = speedup_roles(predictions)
    efficiency = optima[optima["objective"] == "efficiency"]
    ends = efficiency.assign(
        batch_per_worker=efficiency["batch_per_worker"].astype("int64"),
        low=efficiency["nodes"] * efficiency["low"],
        high=efficiency["nodes"] * efficiency["high"],
    )[["curve", *POINT, "low", "high"]]
    rows = rows.merge(ends, "left", ["curve", *POINT])
    line = rows["role"] != "observed"
    return rows.assign(low=rows["low"].where(line), high=rows["high"].where(line))


def link_rates(rates: pd.DataFrame) -> pd.DataFrame:
    """Return the line (one batch of one curve) that has most measured points, in long form.

    Of lines with as many it is the one with the largest batch. `role` tells the points, `observed`,
    from its law: `within` the rates and nodes that were measured, or `beyond`.
    """
    line = ["curve", "batch_per_worker"]
    seen = rates[rates["observed_s"].notna()].groupby(line).size().reset_index(name="seen")
    best = seen.sort_values(["seen", "batch_per_worker"], kind="stable").tail(1)
    rows = rates.merge(best[line], "inner", line)
    law = rows.assign(role=rows["beyond"].map({True: "beyond", False: "within"}), cell_id="")
    points = rows[rows["observed_s"].notna()].assign(
        role="observed",
        fitted_s=rows["observed_s"],
        efficiency=rows["observed_efficiency"],
        **dict.fromkeys(["low_s", "high_s", "efficiency_low", "efficiency_high"], float("nan")),
    )
    return pd.concat([law, points], ignore_index=True)


def with_flags(points: pd.DataFrame, curves: pd.DataFrame) -> pd.DataFrame:
    """Return the points with the `flags` of the curve points of the same cell; others have none."""
    flags = curves.drop_duplicates("cell_id").set_index("cell_id")["flags"]
    return points.assign(flags=points["cell_id"].map(flags).fillna(""))


def mean_savings(savings: pd.DataFrame) -> pd.DataFrame:
    """Return what more nodes save in the mean over the models of each published study."""
    return savings[(savings["model"] == "") & (savings["nodes"] > 1)].reset_index(drop=True)


def _with_epochs(tables: Tables) -> pd.DataFrame:
    """Return the curves' lines, with the epochs that their cells trained."""
    key = [*AXES, "whole_epochs"]
    done = tables["cells"][tables["cells"]["status"] == "ok"]
    trained = done.groupby(key)["epochs"].max().rename("trained").reset_index()
    return scaling_lines(tables["curves"]).merge(trained, "left", key)


def _labels(
    rows: pd.DataFrame, projected: pd.Series | bool = False, *, of_accuracy: bool = False
) -> pd.Series:
    rows = rows[["kind", "data_origin"]].assign(
        weights=rows["weights"] if of_accuracy else "", projected=projected
    )
    labels = [kind_label(*told, projected=bool(x)) for *told, x in rows.to_numpy()]
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


def _beside(ours: pd.DataFrame, theirs: pd.DataFrame, values: list[str]) -> pd.DataFrame:
    theirs = _as_ours(theirs)
    columns = [*GROUP, "cluster", "machine", "line", *POINT, *values, *LAUNCHES, "kind"]
    whole: dict[str, Any] = {"repeats": "Int64", "epochs": "int64"}
    frames = [part.reindex(columns=columns).astype(whole) for part in (ours, theirs) if len(part)]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)

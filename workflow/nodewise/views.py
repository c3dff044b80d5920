"""Tables -> what charts and pages show of them. Frames in, frames out; nothing is drawn here."""

from pathlib import Path
from typing import Any

import pandas as pd

from nodewise.errors import UserError
from nodewise.quantities import kind_label
from nodewise.tables import AXES, typed

Tables = dict[str, pd.DataFrame]

SINGLE = "single"
GROUP = ["study", "experiment", "model", "dataset"]
MODEL = ["study", "model", "dataset"]
POINT = ["batch_per_worker", "nodes"]

_PARAMETERS = ("compute_fixed_s", "compute_per_example_s", "latency_s", "bandwidth_bytes_per_s")
FITS = {
    "curve": "str",
    "source": "str",
    "study": "str",
    "experiment": "str",
    "model": "str",
    "strategy": "str",
    "cluster": "str",
    "data_origin": "str",
    "batch_per_worker": "Int64",
    "law": "str",
    **{f"{name}{end}": "float64" for name in _PARAMETERS for end in ("", "_low", "_high")},
    "points": "int64",
    "note": "str",
}
PREDICTIONS = {
    "curve": "str",
    "source": "str",
    "study": "str",
    "experiment": "str",
    "model": "str",
    "strategy": "str",
    "batch_per_worker": "int64",
    "nodes": "int64",
    "observed_s": "float64",
    "fitted_s": "float64",
    "low_s": "float64",
    "high_s": "float64",
    "held_out": "bool",
    "error": "float64",
    "scenario": "str",
}
JUDGEMENT = {
    "scenario": "str",
    "law": "str",
    "curves": "int64",
    "points": "int64",
    "median_error": "float64",
    "mean_error": "float64",
    "worst_error": "float64",
}
OVERHEAD = {"fits": FITS, "predictions": PREDICTIONS, "judgement": JUDGEMENT}


def read_overhead(overhead_dir: Path) -> Tables:
    """Read `fits.csv`, `predictions.csv` and `judgement.csv`.

    Raises:
        UserError: a file is missing, is not CSV, lacks a column, or holds a misfit value.
    """
    return {name: _read_csv(overhead_dir / f"{name}.csv", OVERHEAD[name]) for name in OVERHEAD}


def _read_csv(path: Path, columns: dict[str, str]) -> pd.DataFrame:
    try:
        table = pd.read_csv(path, dtype={k: v for k, v in columns.items() if v == "str"})
        texts = [name for name, dtype in columns.items() if dtype == "str"]
        return typed(table.fillna(dict.fromkeys(texts, "")), columns)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    except KeyError as error:
        raise UserError(f"{path}: a column is missing ({error.args[0]})") from error
    except ValueError as error:
        raise UserError(f"{path}: is not a table of this version ({error})") from error


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
    return _beside(ours, theirs, ["epochs", "seconds", "low_seconds", "high_seconds"])


def accuracies(tables: Tables) -> pd.DataFrame:
    """Return training accuracies after whole epochs, ours and published.

    Beside a published accuracy stand only cells that trained as many epochs; measured-steps cells
    have no accuracy to show.
    """
    ours = _with_epochs(tables)
    ours = ours[ours["whole_epochs"]].rename(columns={"trained": "epochs"})
    ours["kind"] = _labels(ours)
    ours["accuracy"] = ours["train_accuracy"]
    published = tables["published"]
    asked = published.groupby(MODEL)["epochs"].first().rename("asked").reset_index()
    ours = ours.merge(asked, "left", MODEL)
    ours = ours[ours["asked"].isna() | (ours["asked"] == ours["epochs"])]
    theirs = _published_of(_with_epochs(tables), published)
    theirs = theirs.rename(columns={"training_accuracy": "accuracy"})
    return _beside(ours, theirs, ["epochs", "accuracy", "test_accuracy"])


def beside_published(times: pd.DataFrame, accuracy: pd.DataFrame) -> pd.DataFrame:
    """Return one row per published point: time and accuracy, theirs and ours, and the ratio.

    Of several measured times of a point the one that needs no projection is taken.
    """
    where = [*MODEL, *POINT]
    theirs, ours = _split_published(times)
    ours = ours.assign(projected=ours["kind"].str.contains("×")).sort_values("projected")
    ours = ours.drop_duplicates(where)[[*where, "seconds", "kind", "oversubscribed"]]
    rows = theirs[[*where, "epochs", "seconds"]].merge(
        ours, "left", where, suffixes=("_published", "_ours")
    )
    scored, scored_ours = _split_published(accuracy)
    rows = rows.merge(scored[[*where, "accuracy"]], "left", where).merge(
        scored_ours[[*where, "accuracy"]].drop_duplicates(where),
        "left",
        where,
        suffixes=("_published", "_ours"),
    )
    return rows.assign(ratio=rows["seconds_ours"] / rows["seconds_published"])


def step_parts(curves: pd.DataFrame) -> pd.DataFrame:
    """Return the split steps in long form: one row per curve point and part, in seconds."""
    rows = scaling_lines(curves)
    rows["kind"] = _labels(rows)
    parts = {f"{part}_s": part for part in ("compute", "wait", "communicate", "apply")}
    keep = [*GROUP, "line", *POINT, "kind", "repeats", "oversubscribed"]
    long = rows.rename(columns=parts).melt(keep, [*parts.values()], "part", "seconds")
    return long.dropna(subset="seconds").reset_index(drop=True)


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
    return rows.assign(kind=_labels(rows))


def fit_roles(predictions: pd.DataFrame, curves: pd.DataFrame) -> pd.DataFrame:
    """Return what a fit's figure shows: the full fits and every held-out prediction.

    Column `role` is `fitted`, `predicted` (more nodes than any observed point of the line) or
    `held out`; `oversubscribed` tells measured points on more workers than cores.
    """
    full = full_fit(predictions)
    full["role"] = full["beyond"].map({True: "predicted", False: "fitted"})
    rows = pd.concat([full, predictions[predictions["held_out"]].assign(role="held out")])
    return _with_oversubscribed(rows, curves)


def speedup_roles(predictions: pd.DataFrame, curves: pd.DataFrame) -> pd.DataFrame:
    """Return `fitted_speedups` with the columns `role` and `oversubscribed` of `fit_roles`."""
    rows = fitted_speedups(predictions)
    rows["role"] = rows["beyond"].map({True: "predicted", False: "fitted"})
    return _with_oversubscribed(rows, curves)


def full_fit(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return the predictions of the fits to all points, nothing held out; `beyond` the points?"""
    held = predictions.groupby(["curve", "scenario"])["held_out"].transform("any")
    rows = predictions[~held.astype(bool)].drop_duplicates(["curve", *POINT])
    observed = rows["nodes"].where(rows["observed_s"].notna())
    last = observed.groupby([rows["curve"], rows["batch_per_worker"]]).transform("max")
    return rows.assign(beyond=~(rows["nodes"] <= last))


def fitted_speedups(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return the full fits with `speedup`: throughput against one node, of the same formula.

    `observed_speedup` is the same of the observed points. A curve without a one-node row has none.
    """
    rows = full_fit(predictions)
    one = rows.loc[rows["nodes"] == 1, ["curve", "batch_per_worker", "fitted_s", "observed_s"]]
    rows = rows.merge(one, "left", ["curve", "batch_per_worker"], suffixes=("", "_one"))
    rows["speedup"] = rows["nodes"] * rows["fitted_s_one"] / rows["fitted_s"]
    rows["observed_speedup"] = rows["nodes"] * rows["observed_s_one"] / rows["observed_s"]
    return rows.dropna(subset="speedup").reset_index(drop=True)


def break_even(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return, per curve and batch, when more nodes are faster than one, by the full fit.

    Columns: `pays_from` (the smallest such node count, empty if none of the range pays), `best`
    (the node count of the highest throughput), its `speedup`, and `reach` (the end of the range).
    """
    speed = fitted_speedups(predictions)
    speed = speed[speed["nodes"] > 1]
    key = ["curve", "source", "study", "experiment", "model", "strategy", "batch_per_worker"]
    fastest = speed.sort_values("speedup").groupby(key)[["nodes", "speedup"]].last()
    pays = speed[speed["speedup"] > 1].groupby(key)["nodes"].min().rename("pays_from")
    reach = speed.groupby(key)["nodes"].max().rename("reach")
    return fastest.rename(columns={"nodes": "best"}).join([pays, reach]).reset_index()


def _with_oversubscribed(rows: pd.DataFrame, curves: pd.DataFrame) -> pd.DataFrame:
    at = ["experiment", "model", "strategy", *POINT]
    lines = scaling_lines(curves).drop(columns="strategy").rename(columns={"line": "strategy"})
    crowded = lines.groupby(at)["oversubscribed"].any().reset_index()
    rows = rows.merge(crowded, "left", at)
    return rows.assign(oversubscribed=rows["oversubscribed"].eq(True))  # unknown counts as no


def _with_epochs(tables: Tables) -> pd.DataFrame:
    """Return the curves' lines, with the epochs that their cells trained."""
    key = [*AXES, "whole_epochs"]
    done = tables["cells"][tables["cells"]["status"] == "ok"]
    trained = done.groupby(key)["epochs"].max().rename("trained").reset_index()
    return scaling_lines(tables["curves"]).merge(trained, "left", key)


def _labels(rows: pd.DataFrame, projected: pd.Series | bool = False) -> pd.Series:
    rows = rows[["kind", "data_origin"]].assign(projected=projected)
    labels = [kind_label(kind, origin, projected=bool(x)) for kind, origin, x in rows.to_numpy()]
    return pd.Series(labels, index=rows.index, dtype="str")


def _published_of(ours: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Return the published rows of the models that we measured for the same study."""
    return published.merge(ours[MODEL].drop_duplicates(), "inner", MODEL)


def _beside(ours: pd.DataFrame, theirs: pd.DataFrame, values: list[str]) -> pd.DataFrame:
    theirs = theirs.assign(experiment="", line="published", oversubscribed=False)
    columns = [*GROUP, "line", *POINT, *values, "repeats", "oversubscribed", "kind"]
    whole: dict[str, Any] = {"repeats": "Int64", "oversubscribed": "bool", "epochs": "int64"}
    frames = [part.reindex(columns=columns).astype(whole) for part in (ours, theirs) if len(part)]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)


def _split_published(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    published = rows["kind"] == "published"
    return rows[published], rows[~published]

"""Select and join the tables of fits for figures and pages. Data frames in, data frames out."""

import pandas as pd

from nodewise.predict.judge import LARGEST
from nodewise.predict.study import ALL_POINTS, OVERSUBSCRIBED
from nodewise.results.cautions import OVERSUBSCRIBED as TOO_MANY_WORKERS
from nodewise.results.queries import LAUNCHES, POINT, Tables, scaling_lines

CURVE = ["source", "study", "experiment", "model", "strategy", "curve"]
NEAR = 10  # figures show at least this many nodes


def with_launches(predictions: pd.DataFrame, curves: pd.DataFrame) -> pd.DataFrame:
    """Return the predictions with repeats, flags and cell of the observed points of the study."""
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
    """Return the predictions and the held-out predictions of `trials`.

    `held_out` marks predictions of points that were not fitted: the held-out ones, and those of
    oversubscribed points.
    """
    predictions = overhead["predictions"]
    held = held_out(overhead["trials"]).rename(columns={"predicted_s": "fitted_s"})
    crowded = predictions["scenario"] == OVERSUBSCRIBED
    trials = held.assign(beyond=True, held_out=True)
    return pd.concat([predictions.assign(held_out=crowded), trials], ignore_index=True)


def near(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return the rows up to ten nodes, or up to the most nodes that were measured of the curve."""
    measured = predictions["nodes"].where(predictions["observed_s"].notna())
    most = measured.groupby(predictions["curve"]).transform("max")
    return predictions[predictions["nodes"] <= most.clip(lower=NEAR)]


def fit_roles(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a figure of a fit, with a column `role`.

    Roles: `fitted` and `predicted` are points of the law's line, `predicted` beyond the most fitted
    nodes. `observed` are the measured points. `held out` are predictions of points that the law was
    not fitted to. `flags` are the cautions about observed points. If they have none and were
    oversubscribed, it says that there were more workers than cores.

    Args:
        predictions: as from `with_trials` or `with_launches`.
    """
    lines = full_fit(predictions)
    lines["role"] = lines["beyond"].map({True: "predicted", False: "fitted"})
    crowded = predictions["scenario"] == OVERSUBSCRIBED
    cautions = crowded.map({True: TOO_MANY_WORKERS, False: ""})
    own = predictions.get("flags", cautions)
    rows = predictions.assign(flags=own.mask(own == "", cautions))
    measured = crowded | (rows["scenario"] == ALL_POINTS)
    points = rows[measured].dropna(subset="observed_s").assign(role="observed")
    held = rows[rows["held_out"] & ~measured].assign(role="held out")
    return pd.concat([lines.assign(flags=""), points, held], ignore_index=True)


def held_out(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the held-out predictions of the largest node counts by the strategy's own law."""
    return trials[trials["own"] & (trials["scenario"] == LARGEST)]


def full_fit(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the fits to all points."""
    return predictions[predictions["scenario"] == ALL_POINTS].copy()


def coefficients_of(fits: pd.DataFrame, curve: str) -> pd.DataFrame:
    """Return the coefficients of a curve, including those that it shares with other curves.

    Curves of one link are in different fits if the settings of their laws differ.
    """
    of_fit = ["link", "law", "settings"]
    own = fits["curve"] == curve
    mine = fits.loc[own, of_fit].drop_duplicates()
    shared = fits[of_fit].merge(mine, "left", indicator=True)["_merge"] == "both"
    return fits[own | (shared.to_numpy() & (fits["curve"] == ""))]


def speedup_roles(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return `fit_roles` without held-out rows, with `examples_per_s` and `speedup`.

    The speed-up of an observed point is relative to the observed point on one node, that of the
    line relative to the line on one node. Rows without such a reference are dropped.
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
    """Return `speedup_roles` with `low` and `high`, the 90 % interval of the lines' speed-ups.

    Args:
        predictions: as from `with_trials`.
        optima: the table `optima`.
    """
    rows = speedup_roles(predictions)
    ends = (
        optima[optima["job"] != "run"]
        .astype({"batch_per_worker": "int64"})[["curve", *POINT, "speedup_low", "speedup_high"]]
        .rename(columns={"speedup_low": "low", "speedup_high": "high"})
    )
    rows = rows.merge(ends, "left", ["curve", *POINT])
    line = rows["role"] != "observed"
    return rows.assign(low=rows["low"].where(line), high=rows["high"].where(line))


def mean_savings(savings: pd.DataFrame) -> pd.DataFrame:
    """Return the savings on several nodes, as means over the models of each published study."""
    return savings[(savings["model"] == "") & (savings["nodes"] > 1)].reset_index(drop=True)

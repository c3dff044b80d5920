"""Select and join the tables of fits for figures and pages. Data frames in, data frames out."""

import pandas as pd

from nodewise.predict.judge import LARGEST
from nodewise.predict.study import ALL_POINTS, OVERSUBSCRIBED
from nodewise.results.cautions import OVERSUBSCRIBED as TOO_MANY_WORKERS
from nodewise.results.queries import LAUNCHES, POINT, Tables, scaling_lines

CURVE = ["source", "study", "experiment", "model", "strategy", "curve"]


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


def reach(predictions: pd.DataFrame, optima: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a figure of speed-ups over one node, with the roles of `fit_roles`.

    Lines have `low` and `high`, the 90 % interval. The speed-up of an observed point is relative to
    the observed point on one node; without one, it has no row.

    Args:
        predictions: as from `with_launches`, with `points_kind`.
        optima: the table `optima`.
    """
    at = ["curve", "batch_per_worker"]
    roles = fit_roles(predictions)
    points = roles[roles["role"] == "observed"]
    one = points.loc[points["nodes"] == 1, [*at, "observed_s"]]
    points = points.merge(one, "inner", at, suffixes=("", "_one"))
    points["speedup"] = points["nodes"] * points["observed_s_one"] / points["observed_s"]
    names = {"speedup_low": "low", "speedup_high": "high", "kind": "role"}
    lines = optima[optima["job"] != "run"].rename(columns=names)
    lines = lines.merge(predictions[["curve", "points_kind"]].drop_duplicates())
    lines = lines.astype({"batch_per_worker": "int64"}).assign(flags="", cell_id="")
    shown = [*CURVE, *POINT, "role", "points_kind", "speedup", "low", "high", *LAUNCHES]
    return pd.concat([points, lines], ignore_index=True).reindex(columns=shown)


def mean_savings(savings: pd.DataFrame) -> pd.DataFrame:
    """Return the savings on several nodes, as means over the models of each published study."""
    return savings[(savings["model"] == "") & (savings["nodes"] > 1)].reset_index(drop=True)

"""Select and join the tables of fits for figures and pages. Data frames in, data frames out."""

import pandas as pd

from nodewise.predict.study import ALL_POINTS, OVERSUBSCRIBED
from nodewise.results.cautions import OVERSUBSCRIBED as TOO_MANY_WORKERS
from nodewise.results.queries import LAUNCHES, POINT, scaling_lines

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


def fit_roles(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a figure of a fit, with a column `role`.

    Roles: `fitted` and `predicted` are points of the law's line, `predicted` beyond the most fitted
    nodes. `observed` are the measured points. `flags` are the cautions about observed points. If
    they have none and were oversubscribed, it says that there were more workers than cores.

    Args:
        predictions: as from `with_launches`.
    """
    lines = predictions[predictions["scenario"] == ALL_POINTS]
    roles = lines["beyond"].map({True: "predicted", False: "fitted"})
    points = predictions.dropna(subset="observed_s").assign(role="observed")
    crowded = (points["scenario"] == OVERSUBSCRIBED) & (points["flags"] == "")
    points["flags"] = points["flags"].mask(crowded, TOO_MANY_WORKERS)
    return pd.concat([lines.assign(role=roles, flags=""), points], ignore_index=True)


def coefficients_of(fits: pd.DataFrame, curve: str) -> pd.DataFrame:
    """Return the coefficients of a curve, including those that it shares with other curves.

    Curves of one link are in different fits if the settings of their laws differ.
    """
    of_fit = ["link", "law", "settings"]
    own = fits["curve"] == curve
    mine = fits.loc[own, of_fit].drop_duplicates()
    shared = fits[of_fit].merge(mine, "left", indicator=True)["_merge"] == "both"
    return fits[own | (shared.to_numpy() & (fits["curve"] == ""))]

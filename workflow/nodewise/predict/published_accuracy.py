"""Accuracy of predictions for published curves whose largest number of devices is held out.

The table is written by `bench/corpus.py --write`. Predictions use no data of the curve's publisher
except points of its curves that are not held out. Simple rules are listed for comparison.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from nodewise.predict.published_curves import PUBLISHED, Scaling
from nodewise.predict.similar_curves import line_change, slopes_of

PREDICTED = PUBLISHED.with_name("predicted_curves.csv")


def _last(curve: Scaling, devices: float, share: float) -> float:
    doublings = float(np.log2(devices / curve.devices[-1]))
    return float(curve.efficiency[-1]) + share * float(slopes_of(curve)[-1]) * doublings


RULES: dict[str, Callable[[Scaling, float], float]] = {
    "same efficiency": lambda curve, devices: _last(curve, devices, 0.0),
    "last slope": lambda curve, devices: _last(curve, devices, 1.0),
    "half the last slope": lambda curve, devices: _last(curve, devices, 0.5),
    "straight line of time": lambda curve, devices: (
        float(curve.efficiency[-1]) + line_change(curve, devices)
    ),
}
"""Simple rules for comparison. Each predicts the log efficiency of a curve on some devices."""


def read_predicted() -> pd.DataFrame:
    """Return the predictions of held-out points, one row per curve.

    `devices` is the held-out number of devices. `value`, `predicted`, `low` and `high` are in the
    curve's own unit. `ours` and the columns of the rules are errors of the logarithm. `width` is
    that of the interval of the logarithm.
    """
    return pd.read_csv(PREDICTED)


def levels(rows: pd.DataFrame) -> pd.DataFrame:
    """Return errors in % of our predictions and of each rule, and interval widths at 90 % coverage.

    Errors are summarised over curves, and weighted so that each publisher counts the same.

    Args:
        rows: as from `read_predicted`.
    """
    share = 1 / rows.groupby("publisher")["curve"].transform("size")
    found = {}
    for name in ("ours", *RULES):
        size = rows[name].abs()
        wrong = 100 * np.expm1(rows[name]).abs()
        order = np.argsort(wrong.to_numpy())
        at = np.searchsorted(share.iloc[order].cumsum(), share.sum() / 2)
        found[name] = {
            "median": wrong.median(),
            "mean of log": 100 * size.mean(),
            "p90": wrong.quantile(0.9),
            "publishers, median": wrong.iloc[order[at]],
            "publishers, mean of log": 100 * float(np.average(size, weights=share)),
            "width": rows["width"].mean() if name == "ours" else 2 * size.quantile(0.9),
        }
    return pd.DataFrame(found).T


NEXT = PUBLISHED.with_name("next_measurements.csv")


def read_next() -> pd.DataFrame:
    """Return the results of two ways to choose measurements, one row per curve.

    The ways are doubling the devices, and following `nodewise next`. For each: how many
    measurements it made, which number of devices it chose, the loss against the best number of the
    curve, and whether that is at most 10 %. The table is written by `bench/next_measurement.py`.
    """
    return pd.read_csv(NEXT)

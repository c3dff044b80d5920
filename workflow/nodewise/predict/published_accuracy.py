"""Accuracy of predictions for published curves whose largest number of devices is held out.

The table is written by `bench/corpus.py --write`. Predictions use no data of the curve's publisher
except points of its curves that are not held out. Simple rules are listed for comparison.
"""

import numpy as np
import pandas as pd

from nodewise.predict.similar_curves import PUBLISHED

PREDICTED = PUBLISHED.with_name("predicted_curves.csv")


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
    for name in rows.loc[:, "ours":]:
        size = rows[name].abs()
        wrong = 100 * np.expm1(rows[name]).abs()
        found[name] = {
            "median": wrong.median(),
            "mean of log": 100 * size.mean(),
            "p90": wrong.quantile(0.9),
            "publishers, median": np.quantile(wrong, 0.5, weights=share, method="inverted_cdf"),
            "publishers, mean of log": 100 * np.average(size, weights=share),
            "width": rows["width"].mean() if name == "ours" else 2 * size.quantile(0.9),
        }
    return pd.DataFrame(found).T.astype(float)


NEXT = PUBLISHED.with_name("next_measurements.csv")


def read_next() -> pd.DataFrame:
    """Return the results of two ways to choose measurements, one row per curve.

    The ways are doubling the devices, and following `nodewise next`. For each: how many
    measurements it made, which number of devices it chose, the loss against the best number of the
    curve, and whether that is at most 10 %. The table is written by `bench/next_measurement.py`.
    """
    return pd.read_csv(NEXT)

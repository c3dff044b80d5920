"""Fit one bandwidth to a whole published table, given its one-node step times.

t(n) = t(1) + 2(n−1)/n·S/B, with the observed t(1) of each curve and one B for all models and
batches, which ran on the same machines. This one number then predicts all times on several nodes.

B minimises the mean absolute error of log t over the points on several nodes. Unlike least squares,
this is robust against curves that follow another law (for example with an input bottleneck). The
search goes through a grid in steps of 0.1 %, because the sum of absolute errors may have several
minima.
"""

from typing import Any

import numpy as np
import pandas as pd

from nodewise.predict import judge
from nodewise.predict.curve_groups import CurveGroup
from nodewise.predict.fit import interval_of
from nodewise.predict.law import Floats

ONE_BANDWIDTH = "one bandwidth for the whole table, fitted to these points"
OTHER_MODELS = "one bandwidth, from the other models' points"
LAW = "bandwidth"

_TRIED = np.exp(np.arange(np.log(1e6), np.log(1e11), 1e-3))  # bytes per second
_SEED = 30917


def spread(group: CurveGroup) -> pd.DataFrame:
    """Return the published, fitted rows on several nodes, of lines with a row on one node.

    Added columns: `base_s` is the observed step time on one node with the same batch, in seconds.
    `sent` is the number of bytes that a ring sends per node and step.
    """
    rows = group.fitted.rows
    rows = rows[rows["kind"] == "published"]
    at = ["curve", "batch_per_worker"]
    base = rows.loc[rows["nodes"] == 1, [*at, "step_time_s"]]
    base = base.rename(columns={"step_time_s": "base_s"})
    several = rows[rows["nodes"] > 1].merge(base, "inner", at)
    payload = several["payload_bytes"].astype(float)
    return several.assign(sent=2 * (several["nodes"] - 1) / several["nodes"] * payload)


def fit_bandwidth(rows: pd.DataFrame) -> float:
    """Return the best bandwidth in bytes per second for one or more rows from `spread`."""
    return float(_TRIED[_errors(rows).sum(axis=1).argmin()])


def fit_rows(group: CurveGroup, draws: int) -> list[dict[str, Any]]:
    """Return the row of the table `fits` about the bandwidth of a group; none if unpublished.

    The interval is from bootstrap resampling of lines (one batch of one model).
    """
    if (rows := spread(group)).empty:
        return []
    lines = rows.groupby(["curve", "batch_per_worker"]).ngroup().to_numpy()
    errors = _errors(rows)
    of_line = np.stack([errors[:, lines == i].sum(axis=1) for i in range(lines.max() + 1)], axis=1)
    count = of_line.shape[1]
    counts = np.random.default_rng(_SEED).multinomial(count, np.full(count, 1 / count), size=draws)
    low, high = interval_of(_TRIED[(of_line @ counts.T).argmin(axis=0)])
    first = group.first
    return [
        {
            "source": first["kind"],
            "data_origin": "",
            "study": first["study"],
            "experiment": "",
            "link": group.link,
            "curve": "",
            "model": "",
            "strategy": first["strategy"],
            "batch_per_worker": None,
            "law": LAW,
            "settings": "{}",
            "parameter": "bandwidth",
            "meaning": "one bandwidth for the whole table (least mean absolute log error)",
            "unit": "B/s",
            "value": fit_bandwidth(rows),
            "low": low,
            "high": high,
            "points": len(rows),
            "noise": np.nan,
            "note": "compute is the observed one-node step; latency is 0",
        }
    ]


def trial_rows(group: CurveGroup) -> list[dict[str, Any]]:
    """Return rows of the table `trials`: by the common bandwidth, and by that of other models."""
    if (rows := spread(group)).empty:
        return []
    trials = _trials(rows, ONE_BANDWIDTH, fit_bandwidth(rows))
    for model in rows["model"].unique():
        others = rows[rows["model"] != model]
        if len(others):
            own = rows[rows["model"] == model]
            trials += _trials(own, OTHER_MODELS, fit_bandwidth(others))
    return trials


def _errors(rows: pd.DataFrame) -> Floats:
    """Return absolute errors of log t, (bandwidths tried, rows)."""
    base, sent, observed = (
        rows[name].to_numpy(float) for name in ("base_s", "sent", "step_time_s")
    )
    errors: Floats = np.abs(np.log((base + sent / _TRIED[:, None]) / observed))
    return errors


def _trials(rows: pd.DataFrame, scenario: str, bandwidth: float) -> list[dict[str, Any]]:
    predicted = (rows["base_s"] + rows["sent"] / bandwidth).to_numpy(float)
    about = {"scenario": scenario, "trained": "", "law": LAW, "own": True}
    return judge.trial_rows(rows, predicted, about | {"low_s": np.nan, "high_s": np.nan})

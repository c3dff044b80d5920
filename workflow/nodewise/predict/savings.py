"""Compute the share of training time that more nodes save, for models of a published study.

The share is 1 − t(n)/(n·t(1)) at a fixed batch per worker. As in the study, each model is
represented by the batch that saved most on its largest number of nodes, and the mean weighs all
models equally.
"""

from typing import Any

import numpy as np
import pandas as pd

from nodewise.predict.fit import Fit, interval_of
from nodewise.predict.fit_curves import CurveGroup
from nodewise.predict.points import Floats, Points

NODES = tuple(range(1, 11))


def saving_rows(group: CurveGroup, fitted: Fit) -> list[pd.DataFrame]:
    """Return rows of `savings` for each model and for their mean, which has an empty `model`.

    There are none if the group is not of a published study.
    """
    best: dict[str, tuple[Any, int, Floats]] = {}
    if group.first["kind"] != "published" or not len(fitted.draws):
        return []
    for _, line in group.fitted.rows.groupby(["curve", "batch_per_worker"]):
        first, model = line.iloc[0], str(line["model"].iloc[0])
        seconds = line.set_index("nodes")["step_time_s"].sort_index().astype(float)
        if 1 in seconds.index and len(seconds) > 1:
            observed = 1 - seconds / (seconds.index.to_numpy(float) * seconds.loc[1])
            at = first["batch_per_worker"], float(line["payload_bytes"].median())
            points = Points.of(NODES, *at, model=first["curve"], link=group.link)
            drawn = np.vstack([fitted.evaluate(points), fitted.draw(points)])
            saved = np.asarray(1 - drawn / (points.nodes * drawn[:, :1]))
            if model not in best or observed.iloc[-1] > best[model][0].iloc[-1]:
                best[model] = observed, int(first["batch_per_worker"]), saved
    if not best:
        return []
    tables = [
        _table(observed, saved).assign(model=model, batch_per_worker=batch)
        for model, (observed, batch, saved) in best.items()
    ]
    mean = pd.concat([one[0] for one in best.values()], axis=1).mean(axis=1, skipna=False)
    drawn = np.mean([one[2] for one in best.values()], axis=0)
    tables.append(_table(mean, drawn).assign(model="", batch_per_worker=None))
    about = {"source": group.first["kind"], "study": group.first["study"]}
    return [pd.concat(tables).assign(**about)]


def _table(line: "pd.Series[float]", saved: Floats) -> pd.DataFrame:
    """Return rows by number of nodes.

    Args:
        line: the observed shares, by number of nodes.
        saved: the shares by the law, then by draws, (1 + draws, nodes).
    """
    observed = line.reindex(NODES).to_numpy(float)
    low, high = interval_of(saved[1:])
    kind = np.where(np.isfinite(observed), "fitted", "predicted")
    table = {"nodes": NODES, "observed": observed, "saved": saved[0], "low": low, "high": high}
    return pd.DataFrame(table | {"kind": kind})

"""Compute the share of training time that more nodes save, for models of a published study.

The share is 1 − t(n)/(n·t(1)) at a fixed batch per worker. As in the study, each model is
represented by the batch that saved most on its largest number of nodes, and the mean weighs all
models equally.
"""

from typing import Any

import numpy as np
import pandas as pd

from nodewise.predict.curve_groups import CurveGroup, rows_of
from nodewise.predict.fit import Fit, interval_of
from nodewise.predict.law import At, Floats

NODES = tuple(range(1, 11))


def saving_rows(group: CurveGroup, fitted: Fit) -> list[dict[str, Any]]:
    """Return rows of `savings` for each model and for their mean, which has an empty `model`.

    There are none if the group is not of a published study.
    """
    lines = _best_lines(group.fitted.rows)
    if group.first["kind"] != "published" or not lines or not len(fitted.draws):
        return []
    about = {"source": group.first["kind"], "study": group.first["study"]}
    saved, drawn, observed = zip(*(_saved(group, fitted, line) for line in lines), strict=True)
    tables = []
    for line, *of_line in zip(lines, saved, drawn, observed, strict=True):
        first = line.iloc[0]
        model = {"model": first["model"], "batch_per_worker": int(first["batch_per_worker"])}
        tables.append(_table(*of_line).assign(**model))
    mean = _table(*(np.mean(values, axis=0) for values in (saved, drawn, observed)))
    tables.append(mean.assign(model="", batch_per_worker=None))
    return [row | about for table in tables for row in rows_of(table)]


def _best_lines(rows: pd.DataFrame) -> list[pd.DataFrame]:
    """Return the points of each model at the batch that saved most on its most nodes."""
    best = []
    for _, of in rows.groupby("curve"):
        lines = [line.set_index("nodes", drop=False) for _, line in of.groupby("batch_per_worker")]
        known = [line for line in lines if 1 in line.index and len(line) > 1]
        if known:
            best.append(max(known, key=lambda line: _observed(line).iloc[-1]))
    return best


def _observed(line: pd.DataFrame) -> "pd.Series[float]":
    """Return the share saved by number of nodes, for a line indexed by nodes."""
    seconds = line["step_time_s"].sort_index().astype(float)
    saved: pd.Series[float] = 1 - seconds / (seconds.index.to_numpy(float) * seconds.loc[1])
    return saved


def _saved(group: CurveGroup, fitted: Fit, line: pd.DataFrame) -> tuple[Floats, Floats, Floats]:
    """Return the share saved on `NODES`: by the law, by its draws, and as observed or NaN.

    The shapes are (nodes,), (draws, nodes) and (nodes,).
    """
    first = line.iloc[0]
    at = At.of(NODES, first["batch_per_worker"], float(line["payload_bytes"].median()))
    curve = str(first["curve"])
    step_s = fitted.evaluate(at, curve, group.link)
    drawn = fitted.draw(at, curve, group.link)
    observed = np.asarray(_observed(line).reindex(NODES), np.float64)
    saved: Floats = 1 - step_s / (at.nodes * step_s[0])
    return saved, 1 - drawn / (at.nodes * drawn[:, :1]), observed


def _table(saved: Floats, drawn: Floats, observed: Floats) -> pd.DataFrame:
    low, high = interval_of(drawn)
    table = pd.DataFrame({"nodes": NODES, "observed": observed, "saved": saved})
    kind = np.where(np.isfinite(observed), "fitted", "predicted")
    return table.assign(low=low, high=high, kind=kind)

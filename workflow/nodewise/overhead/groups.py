"""The rows of the tables that one fit is made of.

A group is one model trained one way on one cluster: its batches share latency and bandwidth, and
one formula of compute. Rows keep what decides whether they may be fitted.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from nodewise.errors import UserError
from nodewise.overhead.fit import Points
from nodewise.overhead.formulas import Floats, Mask
from nodewise.tables import AXES, CURVE_KEY

SINGLE = "single"
GROUP_KEY = [name for name in CURVE_KEY if name not in ("batch_per_worker", "nodes")]
# The way of training of a published study, which its table does not spell out row by row.
PUBLISHED_STRATEGY = {"ntua": "multi_worker_mirrored"}
_FITTED = ("none", "ring")

Launches = dict[tuple[Any, ...], Floats]


@dataclass(frozen=True)
class Group:
    """One curve per batch; all arrays of shape (rows,), ordered by batch and nodes.

    `about` holds the columns that name the group in every table of results. `step_s` is NaN where
    nothing came out. `keys` find the launches of a row. `borrowed` says that one-node rows were
    measured with strategy `single`.
    """

    about: dict[str, str]
    batch: Floats
    nodes: Floats
    payload: Floats
    step_s: Floats
    oversubscribed: Mask
    keys: list[tuple[Any, ...]]
    borrowed: bool

    @property
    def timed(self) -> Mask:
        """Rows with a step time and a payload."""
        return np.isfinite(self.step_s) & (self.step_s > 0) & np.isfinite(self.payload)

    @property
    def fitted(self) -> Mask:
        """Rows to fit: timed, and with a core for each worker, since others do not scale alike."""
        return self.timed & ~self.oversubscribed

    @property
    def points(self) -> Points:
        """The rows to fit."""
        mask = self.fitted
        return Points(self.nodes[mask], self.batch[mask], self.payload[mask], self.step_s[mask])


def find_groups(curves: pd.DataFrame) -> Iterator[Group]:
    """Yield the groups of the table `curves`, ordered by their names.

    Only of what exchanges gradients by a ring all-reduce: there is no law of other ways yet.

    A strategy that was not measured on one node borrows the `single` row of its batch. A `single`
    row that belongs to another strategy's curve makes no curve of its own.

    Raises:
        UserError: a column is missing.
    """
    columns = [*CURVE_KEY, "oversubscribed", "step_time_normalised_s", "payload_bytes"]
    known = require(curves, [*columns, "exchange"], "curves")
    rows = _with_borrowed(known.loc[known["exchange"].isin(_FITTED), columns])
    for key, group in rows.groupby([*GROUP_KEY]):
        yield _group(dict(zip(GROUP_KEY, key, strict=True)), group)


def find_launches(cells: pd.DataFrame) -> Launches:
    """Return the step times of the launches of each curve row, by its key, shape (launches,).

    Raises:
        UserError: a column is missing.
    """
    require(cells, [*CURVE_KEY, "status", "step_time_normalised_s"], "cells")
    done = cells[(cells["status"] == "ok") & (cells["step_time_normalised_s"] > 0)]
    return {
        key: times.to_numpy(dtype=float)
        for key, times in done.groupby(CURVE_KEY)["step_time_normalised_s"]
    }


def published_curves(published: pd.DataFrame) -> pd.DataFrame:
    """Return the table `published` in the columns of `curves` that `find_groups` reads.

    Raises:
        UserError: a column is missing.
    """
    columns = ["study", "model", "dataset", "batch_per_worker", "nodes", "step_time_s"]
    rows = require(published, [*columns, "kind", "payload_bytes"], "published")
    strategies = rows["study"].map(PUBLISHED_STRATEGY).fillna("").astype("str")
    return rows.assign(
        experiment="",
        strategy=strategies,
        cluster="",
        data_origin="",
        whole_epochs=True,
        exchange="ring",
        oversubscribed=False,
        step_time_normalised_s=rows["step_time_s"],
    )


def require(table: pd.DataFrame, columns: list[str], name: str) -> pd.DataFrame:
    """Return `table` if it has the columns.

    Raises:
        UserError: one is missing.
    """
    missing = [column for column in columns if column not in table]
    if missing:
        raise UserError(f"table {name}: column {missing[0]} is missing")
    return table


def _with_borrowed(curves: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with `strategy` that of their curve; `key` stays that of their launches."""
    keys = list(curves[CURVE_KEY].itertuples(index=False, name=None))
    rows = curves.assign(key=pd.Series(keys, curves.index, dtype="object"))
    is_single = (rows["strategy"] == SINGLE) & (rows["nodes"] == 1)
    rest, single = rows[~is_single], rows[is_single].drop(columns="strategy")
    at = [name for name in CURVE_KEY if name not in ("strategy", "nodes")]
    strategies = rest.loc[rest["strategy"] != SINGLE, [*at, "strategy"]].drop_duplicates()
    borrowed = single.merge(strategies, "left", at)
    borrowed["strategy"] = borrowed["strategy"].fillna(SINGLE)
    together = pd.concat([rest, borrowed[rest.columns]]).drop_duplicates(CURVE_KEY)
    return together.sort_values(CURVE_KEY)


def _group(names: dict[str, Any], rows: pd.DataFrame) -> Group:
    keys = list(rows["key"])
    own_strategies = {key[CURVE_KEY.index("strategy")] for key in keys}
    return Group(
        about=_about(names),
        batch=_floats(rows["batch_per_worker"]),
        nodes=_floats(rows["nodes"]),
        payload=_floats(rows["payload_bytes"]),
        step_s=_floats(rows["step_time_normalised_s"]),
        oversubscribed=rows["oversubscribed"].to_numpy(dtype=bool),
        keys=keys,
        borrowed=own_strategies != {names["strategy"]},
    )


def _about(names: dict[str, Any]) -> dict[str, str]:
    path = [names[name] for name in AXES if names.get(name)]
    kinds = [names["kind"], f"{names['data_origin']} data" if names["data_origin"] else ""]
    extent = "whole epochs" if names["whole_epochs"] else "steps"
    curve = f"{'/'.join(path)} ({', '.join([*filter(None, kinds), extent])})"
    shown = ("study", "experiment", "model", "strategy", "cluster", "data_origin")
    return {"curve": curve, "source": names["kind"], **{name: names[name] for name in shown}}


def _floats(column: "pd.Series[Any]") -> Floats:
    return column.to_numpy(dtype=np.float64, na_value=np.nan)

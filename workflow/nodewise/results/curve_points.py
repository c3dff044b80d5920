"""The points of curves, whoever measured them: the one table that laws are fitted to.

A point is the step time of one curve at one batch and one number of nodes. Points come from the
cells of a study, from published studies, and from files of users; fits, their judgement and pages
take this table, and do not know where a point came from.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from nodewise.core.intervals import median_error
from nodewise.results.columns import AXES, CURVE_KEY, CURVE_POINTS, ONE_NODE_KEY, SINGLE
from nodewise.results.curves import Curve, Measured
from nodewise.results.table_files import typed

IMPORTED = "imported"
BY_OTHERS = ("published", IMPORTED)
"""The kinds of points that are not of the study's own cells."""
PARTS_AGREE = 0.10
"""Parts that add up to another time than the step's are not parts of it: some overlap there."""

# The strategy of a published study, which its table does not spell out row by row.
_PUBLISHED_STRATEGY = {"ntua": "multi_worker_mirrored"}
# With these one node talks to a server, or codes its gradient: `single` is not their one node. Nor
# is it that of a pipeline, which computes in micro-batches.
_NEVER_ALONE = ("server", "all-gather")
_PARTS = ["compute_s", "wait_s", "communicate_s"]
_CURVE = [name for name in CURVE_KEY if name not in ("batch_per_worker", "nodes")]


def measured_points(curves: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """Return the points of a study's own curves.

    A strategy that was not measured on one node borrows the `single` row of its batch. A `single`
    row that belongs to another strategy's curve makes no curve of its own.

    Args:
        curves: one row per batch and nodes, with its median step time.
        cells: one row per launch, for the noise; may be empty.
    """
    rows = _with_borrowed(_with_noise(curves, cells))
    timed = (rows["step_time_s"] > 0) & rows["payload_bytes"].notna()
    rows["compute_s"] += rows["apply_s"]
    whole = rows[_PARTS].sum(axis=1, skipna=False) / rows["step_time_s"]
    rows[_PARTS] = rows[_PARTS].where((whole - 1).abs() <= PARTS_AGREE)
    rows = rows.assign(
        curve=curve_keys(rows),
        link=[_link(*of) for of in rows[["strategy", "cluster", "machine", "kind"]].to_numpy()],
        timed=timed,
        fitted=timed & ~rows["oversubscribed"].astype(bool),
    )
    return _points(rows.sort_values(CURVE_KEY))


def published_points(published: pd.DataFrame) -> pd.DataFrame:
    """Return the points of the table `published`; the curves of a study share one link."""
    rows = published.assign(
        strategy=published["study"].map(_PUBLISHED_STRATEGY).fillna("").astype("str"),
        link=published["study"] + " (published)",
        whole_epochs=True,
        exchange="ring",
        steps_per_epoch=published["steps"] // published["epochs"],
    )
    rows = rows.assign(experiment="", cluster="", data_origin="")
    timed = (rows["step_time_s"] > 0) & rows["payload_bytes"].notna()
    rows = rows.assign(curve=curve_keys(rows), timed=timed, fitted=timed)
    return _points(rows.sort_values(CURVE_KEY))


def imported_points(curves: Sequence[Curve]) -> pd.DataFrame:
    """Return the points of curves that somebody else measured.

    Where nobody said a curve's collective, it is taken for that of its cluster, if it has one.
    """
    named: dict[str | None, set[str]] = {}
    for curve in curves:
        if curve.cluster is not None and not curve.assumed:
            named.setdefault(curve.cluster, set()).add(curve.collective)
    return _points(
        pd.DataFrame(
            [
                {
                    "curve": curve.name,
                    "link": curve.link,
                    "model": curve.name,
                    "cluster": curve.cluster or "",
                    "kind": IMPORTED,
                    "collective": _collective(curve, named.get(curve.cluster, set())),
                    "batch_per_worker": point.batch_per_worker,
                    "nodes": point.nodes,
                    "payload_bytes": curve.payload,
                    "step_time_s": point.step_time,
                    "compute_s": point.compute,
                    "wait_s": point.wait,
                    "communicate_s": point.communicate,
                    "noise": point.noise,
                    "steps_per_epoch": _steps_per_epoch(curve, point),
                    "timed": True,
                    "fitted": True,
                }
                for curve in curves
                for point in curve.measured
            ]
        )
    )


def _steps_per_epoch(curve: Curve, point: Measured) -> float | None:
    if curve.examples is None or not curve.in_seconds:
        return None
    return curve.examples / (point.nodes * point.batch_per_worker)


def _collective(curve: Curve, of_cluster: set[str]) -> str:
    """Return the law that a curve names; empty if nobody said what ran."""
    if not curve.assumed:
        return curve.collective
    return next(iter(of_cluster)) if len(of_cluster) == 1 else ""


def _points(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows as a table of points: texts that they lack are empty, numbers unknown."""
    unknown: dict[str, Any] = {"str": "", "bool": False, "float64": np.nan, "int64": 0}
    lacking: dict[str, Any] = {
        name: unknown[of] for name, of in CURVE_POINTS.items() if name not in rows
    }
    return typed(rows.assign(**lacking), CURVE_POINTS)


def _with_noise(curves: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with `noise`: the relative standard error of the median over launches."""
    done = cells[(cells["status"] == "ok") & (cells["step_time_s"] > 0)]
    logs = done.assign(log=np.log(done["step_time_s"].astype(float))).groupby(CURVE_KEY)["log"]
    spread = (logs.std(ddof=1) * median_error(logs.size())).rename("noise")
    return curves.merge(spread.reset_index(), "left", CURVE_KEY)


def _with_borrowed(curves: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of each curve, `single` ones with the strategy of their curve."""
    rows = curves.assign(borrowed=False)
    is_single = (rows["strategy"] == SINGLE) & (rows["nodes"] == 1)
    rest, single = rows[~is_single], rows[is_single].drop(columns="strategy")
    at = [*ONE_NODE_KEY, "machine"]
    cut = np.array([_in_micro_batches(options) for options in rest["options"]], bool)
    other = rest["exchange"].isin(_NEVER_ALONE) | cut
    alike = rest[(rest["strategy"] != SINGLE) & ~other]
    strategies = alike[[*at, "strategy"]].drop_duplicates()
    lent = single.merge(strategies, "left", at)
    lent["borrowed"] = lent["strategy"].notna()
    lent["strategy"] = lent["strategy"].fillna(SINGLE)
    return pd.concat([rest, lent[rest.columns]]).drop_duplicates(CURVE_KEY)


def _in_micro_batches(options: str) -> bool:
    return bool(json.loads(options or "{}").get("micro_batches", 1) > 1)


def curve_keys(rows: pd.DataFrame) -> list[str]:
    """Return the key of the curve that each row of the table `curves` is a point of."""
    return [_name(dict(zip(_CURVE, key, strict=True))) for key in rows[_CURVE].to_numpy()]


def _name(names: dict[str, Any]) -> str:
    path = [names[name] for name in AXES if names.get(name)]
    kinds = [names["kind"], f"{names['data_origin']} data" if names["data_origin"] else ""]
    extent = "whole epochs" if names["whole_epochs"] else "steps"
    return f"{'/'.join(path)} ({', '.join([*filter(None, kinds), extent])})"


def _link(strategy: str, cluster: str, machine: str, kind: str) -> str:
    """Return the name of what shares latency and bandwidth.

    Software counts as much as wires, and so does the processor that runs it.
    """
    return f"{', '.join(filter(None, (strategy, cluster, machine)))} ({kind})"

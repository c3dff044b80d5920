"""Build the table of points from all sources, to which laws are fitted.

A point is the step time of one curve at one batch and one number of nodes. Points come from the
cells of a study, from published studies, and from files of users. Fits, their validation and pages
use this table and do not depend on the source of a point.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from nodewise.core.exchanges import EXCHANGES, RING
from nodewise.core.intervals import median_error
from nodewise.results.columns import AXES, COLUMNS, CURVE_KEY, ONE_NODE_KEY, SINGLE
from nodewise.results.curves import TIMED_PARTS, Curve
from nodewise.results.published import PUBLISHED_STRATEGY
from nodewise.results.table_files import typed

IMPORTED = "imported"
PARTS_AGREE = 0.10
"""Parts overlap if their sum differs from the step by more than this share; they are not used."""

_CURVE = [name for name in CURVE_KEY if name not in ("batch_per_worker", "nodes")]


def measured_points(curves: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """Return the points of the curves that a study measured.

    A strategy that was not measured on one node, and is plain training there, gets the `single` row
    of its batch.

    Args:
        curves: one row per curve point, with its median step time.
        cells: one row per launch, to estimate the noise; may be empty.
    """
    plain = [  # whether `single` is the one-node case of the strategy
        EXCHANGES[exchange].plain_alone(json.loads(options or "{}"))
        for exchange, options in curves[["exchange", "options"]].to_numpy()
    ]
    done = cells[(cells["status"] == "ok") & (cells["step_time_s"] > 0)]
    logs = done.assign(log=np.log(done["step_time_s"].astype(float))).groupby(CURVE_KEY)["log"]
    # the relative standard error of the median over launches
    noise = (logs.std(ddof=1) * median_error(logs.size())).rename("noise")
    rows = curves.merge(noise.reset_index(), "left", CURVE_KEY)
    rows = lines_over_nodes(rows, pd.Series(plain, rows.index, dtype=bool))
    rows = rows.assign(strategy=rows["line"])
    rows["compute_s"] += rows["apply_s"]
    whole = rows[TIMED_PARTS].sum(axis=1, skipna=False) / rows["step_time_s"]
    rows[TIMED_PARTS] = rows[TIMED_PARTS].where((whole - 1).abs() <= PARTS_AGREE)
    rows = rows.assign(
        curve=curve_keys(rows),
        # latency and bandwidth depend on software and processor as much as on the network
        link=[
            f"{', '.join(filter(None, about))} ({kind})"
            for *about, kind in rows[["strategy", "cluster", "machine", "kind"]].to_numpy()
        ],
    )
    return _points(rows.sort_values(CURVE_KEY))


def published_points(published: pd.DataFrame) -> pd.DataFrame:
    """Return the points of the table `published`. All curves of a study share one link."""
    rows = published.assign(
        strategy=PUBLISHED_STRATEGY,
        link=published["study"] + " (published)",
        whole_epochs=True,
        exchange=RING.name,
        steps_per_epoch=published["steps"] // published["epochs"],
        **dict.fromkeys(("experiment", "cluster", "data_origin"), ""),
    )
    return _points(rows.assign(curve=curve_keys(rows)).sort_values(CURVE_KEY))


def imported_points(curves: Sequence[Curve]) -> pd.DataFrame:
    """Return the points of imported curves."""
    rows = []
    for curve in curves:
        examples = curve.examples if curve.in_seconds and curve.examples else np.nan
        about = {
            "curve": curve.name,
            "link": curve.link,
            "model": curve.name,
            "cluster": curve.cluster or "",
            "kind": IMPORTED,
            "collective": curve.collective,
            "payload_bytes": curve.payload,
        }
        rows += [
            about
            | point.model_dump()
            | {"steps_per_epoch": examples / (point.nodes * point.batch_per_worker)}
            for point in curve.measured
        ]
    return _points(pd.DataFrame(rows))


def _points(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows as a table of points, and say which of them are timed and may be fitted.

    In missing columns, values are empty texts, False, NaN, and 0 for whole numbers.
    """
    unknown: dict[str, Any] = {"str": "", "bool": False, "float64": np.nan, "int64": 0}
    lacking: dict[str, Any] = {
        name: unknown[of] for name, of in COLUMNS["curve_points"].items() if name not in rows
    }
    rows = rows.assign(**lacking)
    timed = (rows["step_time_s"] > 0) & rows["payload_bytes"].notna()
    crowded = rows["oversubscribed"].astype(bool) if "oversubscribed" in rows else False
    return typed(rows.assign(timed=timed, fitted=timed & ~crowded), COLUMNS["curve_points"])


def lines_over_nodes(curves: pd.DataFrame, borrows: "pd.Series[bool]") -> pd.DataFrame:
    """Return the curves with a column `line`: the strategy whose line over nodes contains the row.

    A strategy that was not measured on one node borrows the `single` point of its batch, so that
    its line starts there. `single` points that no strategy borrows are a line of their own.

    Args:
        curves: one row per curve point.
        borrows: whether the strategy of a row may borrow, by the index of `curves`.
    """
    at, is_single = [*ONE_NODE_KEY, "machine"], curves["strategy"] == SINGLE
    several = curves[~is_single].assign(line=lambda rows: rows["strategy"])
    lines = several[borrows[~is_single]][[*at, "line"]].drop_duplicates()
    single = curves[is_single].merge(lines, "left", at)
    single["line"] = single["line"].fillna(SINGLE)
    return pd.concat([several, single]).drop_duplicates([*ONE_NODE_KEY, "line", "nodes"])


def curve_keys(rows: pd.DataFrame) -> list[str]:
    """Return the key of the curve of each row of the table `curves`."""
    keys = []
    for names in rows[_CURVE].to_dict("records"):
        path = [names[name] for name in AXES if names.get(name)]
        kinds = [names["kind"], f"{names['data_origin']} data" if names["data_origin"] else ""]
        extent = "whole epochs" if names["whole_epochs"] else "steps"
        keys.append(f"{'/'.join(path)} ({', '.join([*filter(None, kinds), extent])})")
    return keys

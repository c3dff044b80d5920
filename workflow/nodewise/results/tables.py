"""Build the tables of a study from its records. Without records they are empty."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nodewise.core.cell import WATTS_PER_CORE
from nodewise.core.errors import UserError
from nodewise.core.intervals import pooled_factors
from nodewise.core.schema import read_json
from nodewise.results.cautions import SEVERAL_MACHINES, cautions_of_launches, join_cautions
from nodewise.results.cell_rows import (
    axes,
    cell_row,
    epoch_rows,
    noise_rows,
    observation_rows,
)
from nodewise.results.columns import (
    AXES,
    CELLS,
    COLUMNS,
    CURVE_KEY,
    CURVES,
    ONE_NODE_KEY,
    PUBLISHED,
    SINGLE,
    SPLIT,
)
from nodewise.results.curve_points import imported_points, measured_points, published_points
from nodewise.results.curves import Curve
from nodewise.results.noise_scale import NoiseScale
from nodewise.results.record import read_record
from nodewise.results.table_files import typed

_ALIKE = (  # the same for all launches of a curve point; the cell is that of the first launch
    *("exchange", "options", "pipeline", "machine", "nodes_per_machine", "cpu_share"),
    *("rate_mbit", "latency_ms", "global_batch", "payload_bytes", "steps_per_epoch", "cell_id"),
)
_MIDDLES = (  # medians over the launches of a curve point
    *("step_time_s", "input_s"),
    *("train_time_s", "train_accuracy", "test_accuracy"),
    *(*SPLIT, "bytes_sent_per_step"),
)

# the spread of launches differs between experiments, and between one node and several
_POOL = ["kind", "experiment", "alone", "caution"]


def build_tables(
    record_paths: Sequence[Path],
    published: pd.DataFrame | None = None,
    *,
    watts_per_core: float = WATTS_PER_CORE,
    published_runs: pd.DataFrame | None = None,
    noise_scale_paths: Sequence[Path] = (),
    imported: Sequence[Curve] = (),
) -> dict[str, pd.DataFrame]:
    """Return the tables of a study, by the names in `COLUMNS`.

    Args:
        record_paths: record files, in any order.
        published: the points of the NTUA study, or None for an empty table.
        watts_per_core: power of a busy core in watts, for cells without metered energy.
        published_runs: the trainings of other published studies, or None for an empty table.
        noise_scale_paths: files of `nodewise measure-noise-scale`, one per model.
        imported: imported curves.

    Raises:
        UserError: a file does not fit its schema, two records are of the same cell, or two noise
            scales are of the same model.
    """
    records = [read_record(path) for path in record_paths]
    _check_once(record_paths, [record.cell.id for record in records], "record of cell")
    records.sort(key=lambda record: [*axes(record).values()][1:])
    cells = typed((cell_row(record, watts_per_core) for record in records), CELLS)
    curves = _curves_table(cells)
    published = typed(published if published is not None else (), PUBLISHED)
    points = [
        measured_points(curves, cells),
        published_points(published),
        imported_points(imported),
    ]
    noise_scales = [read_json(NoiseScale, path) for path in noise_scale_paths]
    _check_once(noise_scale_paths, [one.model for one in noise_scales], "noise scale of model")
    tables: dict[str, pd.DataFrame | Iterable[dict[str, Any]]] = {
        "cells": cells,
        "epochs": (row for record in records for row in epoch_rows(record)),
        "observations": (row for record in records for row in observation_rows(record)),
        "curves": curves,
        "curve_points": pd.concat(points),
        "noise_scale": (row for measured in noise_scales for row in noise_rows(measured)),
        "published": published,
        "published_runs": published_runs if published_runs is not None else (),
    }
    return {name: typed(rows, COLUMNS[name]) for name, rows in tables.items()}


def _check_once(paths: Sequence[Path], names: Sequence[str], what: str) -> None:
    first: dict[str, Path] = {}
    for path, name in zip(paths, names, strict=True):
        if first.setdefault(name, path) is not path:
            raise UserError(f"{path}: duplicate {what} {name} (also in {first[name]})")


def _curves_table(cells: pd.DataFrame) -> pd.DataFrame:
    """Return one row per curve point, which combines all of its successful launches.

    Results are medians over launches. Rates and epoch times follow from the median step time.
    """
    done = cells[cells["status"] == "ok"].rename(columns={"input": "pipeline"})
    several = done.groupby(CURVE_KEY)["machine"].transform("nunique") > 1
    machines = several.map({True: SEVERAL_MACHINES, False: ""})
    done["flags"] = [*map(join_cautions, done["flags"], machines)]
    of_point = done.groupby(CURVE_KEY)
    parts = [
        of_point[[*_MIDDLES]].median(),
        done.drop_duplicates(CURVE_KEY).set_index(CURVE_KEY)[[*_ALIKE]],
        of_point.size().rename("repeats"),
        of_point["oversubscribed"].any(),
        of_point["weights"].max(),  # "random" if it is so in any launch
        of_point["flags"].agg(cautions_of_launches),
    ]
    rows = pd.concat(parts, axis=1).reset_index()
    failed = cells[cells["status"] != "ok"].groupby([*AXES]).size().rename("failed").reset_index()
    lost = rows.merge(failed, "left", [*AXES])["failed"].fillna(0)
    step_time = rows["step_time_s"].where(rows["step_time_s"] > 0)
    rows = rows.assign(
        examples_per_s=rows["global_batch"] / step_time,
        epoch_time_s=rows["step_time_s"] * rows["steps_per_epoch"].astype(float),
        failed=lost,
        cells=rows["repeats"] + lost,
    )
    # The reference of a point on several nodes is measured on the same machine.
    rows = with_intervals(rows, done, CURVE_KEY)
    rows = one_node_reference(rows, [*ONE_NODE_KEY, "machine"], ["examples_per_s", "cell_id"])
    speedup = rows["examples_per_s"] / rows["examples_per_s_one"]
    rows = rows.assign(speedup=speedup, efficiency=speedup / rows["nodes"])
    return typed(rows.fillna({"cell_id_one": ""}), CURVES)


def with_intervals(curves: pd.DataFrame, cells: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    """Return the curve points with the 90 % intervals of their median step and epoch times.

    A launch is the unit of repetition, because steps within one launch are not independent. Two or
    three launches say little about their own spread (bootstrap intervals of them contain the median
    in only half to three quarters of all cases). The spread is therefore pooled over the points of
    an experiment, separately for points on one node and for points with a caution. Points with one
    launch have no interval: both ends are NaN.

    Args:
        curves: one row per point, with `key`, `flags`, `repeats`, `step_time_s`, `epoch_time_s`.
        cells: one row per successful launch, with `key` and `step_time_s` in seconds.
        key: the columns that the launches of a point have in common, including `kind`.
    """
    timed = cells[cells["step_time_s"] > 0]
    launches = timed.groupby(key)["step_time_s"].agg(list).rename("launches").reset_index()
    points = curves[[*key, "flags"]].merge(launches, "left", key)
    points = points.assign(alone=points["nodes"] == 1, caution=points["flags"] != "")
    factor = np.full(len(points), np.nan)
    for _, pool in points.dropna(subset="launches").groupby(_POOL):
        factor[pool.index] = pooled_factors(pool["launches"].tolist())
    return curves.assign(
        step_time_low_s=curves["step_time_s"] / factor,
        step_time_high_s=curves["step_time_s"] * factor,
        epoch_time_low_s=curves["epoch_time_s"] / factor,
        epoch_time_high_s=curves["epoch_time_s"] * factor,
    )


def one_node_reference(rows: pd.DataFrame, key: list[str], values: list[str]) -> pd.DataFrame:
    """Return the rows with `values` of their one-node reference, in columns that end in `_one`.

    References are the rows on one node that match in `key`: that of `single`, the same loop without
    communication, so that a strategy gains nothing by being slow on one node, else that of the same
    strategy. Without a reference, values are NaN.
    """
    one = rows[rows["nodes"] == 1].assign(rank=rows["strategy"] != SINGLE)
    one = one[[*key, "strategy", "rank", *values]]
    own = rows[[*key, "strategy"]].drop_duplicates()
    pairs = own.merge(one, "inner", key, suffixes=("", "_one"))
    pairs = pairs[~pairs["rank"] | (pairs["strategy"] == pairs["strategy_one"])]
    best = pairs.sort_values("rank", kind="stable").drop_duplicates([*key, "strategy"])
    best = best.drop(columns=["rank", "strategy_one"]).rename(
        columns={name: f"{name}_one" for name in values}
    )
    return rows.merge(best, "left", [*key, "strategy"])

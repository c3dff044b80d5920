"""The tables of a study, from its records. Without a single record they are empty."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from nodewise.core.cell import WATTS_PER_CORE
from nodewise.core.errors import UserError
from nodewise.core.files import file_sha256
from nodewise.results.cautions import SEVERAL_MACHINES, cautions_of_launches, join_cautions
from nodewise.results.cell_rows import (
    axes,
    cell_row,
    epoch_rows,
    noise_rows,
    observation_rows,
    steps_table,
    usual_reference_us,
)
from nodewise.results.columns import (
    AXES,
    CELLS,
    CURVE_KEY,
    CURVES,
    EPOCHS,
    NOISE_SCALE,
    OBSERVATIONS,
    ONE_NODE_KEY,
    PUBLISHED,
    PUBLISHED_RUNS,
    SINGLE,
    SPLIT,
)
from nodewise.results.curve_intervals import with_intervals
from nodewise.results.curve_points import imported_points, measured_points, published_points
from nodewise.results.curves import Curve
from nodewise.results.noise_scale import NoiseScale, read_noise_scale
from nodewise.results.record import Record, read_record
from nodewise.results.table_files import typed

_ALIKE = (  # of all launches of a point of a curve, but for the cell: that of the first
    *("exchange", "options", "pipeline", "machine", "nodes_per_machine", "global_batch"),
    *("payload_bytes", "steps_per_epoch", "cell_id"),
)
_MIDDLES = (  # of a point of a curve: medians over its launches
    *("step_time_s", "step_time_normalised_s", "input_s"),
    *("train_time_s", "train_accuracy", "test_accuracy"),
    *(*SPLIT, "compute_normalised_s", "bytes_sent_per_step"),
)


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
        watts_per_core: what a busy core draws, for cells whose energy no meter counted.
        published_runs: the trainings of the other studies, or None for an empty table.
        noise_scale_paths: what `nodewise measure-noise-scale` wrote, one file per model.
        imported: curves that others measured.

    Raises:
        UserError: a file does not fit its schema, or two files hold the same cell, or noise scales
            of the same model.
    """
    read = _read_all(record_paths)
    records = [record for _, record in read]
    usual = usual_reference_us(records)
    rows = [
        cell_row(record, usual, watts_per_core) | {"record_sha256": file_sha256(path)}
        for path, record in read
    ]
    cells = typed(rows, CELLS)
    curves = _curves_table(cells)
    published = typed(published if published is not None else (), PUBLISHED)
    points = [
        measured_points(curves, cells),
        published_points(published),
        imported_points(imported),
    ]
    noise_scales = _read_noise_scales(noise_scale_paths)
    return {
        "cells": cells,
        "epochs": typed((row for record in records for row in epoch_rows(record)), EPOCHS),
        "steps": steps_table(records),
        "observations": typed(
            (row for record in records for row in observation_rows(record)), OBSERVATIONS
        ),
        "curves": curves,
        "curve_points": pd.concat(points, ignore_index=True),
        "noise_scale": typed(
            (row for measured in noise_scales for row in noise_rows(measured)), NOISE_SCALE
        ),
        "published": published,
        "published_runs": typed(
            published_runs if published_runs is not None else (), PUBLISHED_RUNS
        ),
    }


def _read_all(paths: Sequence[Path]) -> list[tuple[Path, Record]]:
    """Read the records, ordered by cell; a cell may be there once only."""
    read: dict[str, tuple[Path, Record]] = {}
    for path in paths:
        record = read_record(path)
        if record.cell.id in read:
            raise UserError(
                f"{path}: holds the cell {record.cell.id}, which {read[record.cell.id][0]} holds "
                "too; a cell may be measured once only (give repeats different numbers)"
            )
        read[record.cell.id] = (path, record)
    return sorted(read.values(), key=lambda one: [*axes(one[1]).values()][1:])


def _read_noise_scales(paths: Sequence[Path]) -> list[NoiseScale]:
    """Read the noise scales; a model may have been measured once only."""
    read: dict[str, NoiseScale] = {}
    for path in paths:
        measured = read_noise_scale(path)
        if measured.model in read:
            raise UserError(f"{path}: another one is of the model {measured.model}, too")
        read[measured.model] = measured
    return [*read.values()]


def _curves_table(cells: pd.DataFrame) -> pd.DataFrame:
    """One row per curve point: the launches of a cell that ran to their end, together.

    Results are medians over the launches; rates and epoch times follow from the median step time.
    """
    done = cells[cells["status"] == "ok"].rename(columns={"input": "pipeline"})
    of_point = done.groupby(CURVE_KEY)
    parts = [
        of_point[[*_MIDDLES]].median(),
        done.drop_duplicates(CURVE_KEY).set_index(CURVE_KEY)[[*_ALIKE]],
        of_point.size().rename("repeats"),
        of_point["oversubscribed"].any(),
        of_point["weights"].max(),  # "random" if one launch had to
        _cautions(done),
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
    return typed(_with_speedup(with_intervals(rows, done, CURVE_KEY)), CURVES)


def _cautions(done: pd.DataFrame) -> "pd.Series[str]":
    """Return the cautions of each point. Launches on several machines are one of their own."""
    several = done.groupby(CURVE_KEY)["machine"].transform("nunique") > 1
    flags = done["flags"].mask(several, done["flags"].map(_with_machines))
    return done.assign(flags=flags).groupby(CURVE_KEY)["flags"].agg(cautions_of_launches)


def _with_machines(flags: str) -> str:
    return join_cautions(flags, SEVERAL_MACHINES)


def _with_speedup(curves: pd.DataFrame) -> pd.DataFrame:
    """Fill speed-up and efficiency against one node: the same loop without communication.

    That is `single`, whatever a way itself does on one node: it may be slow there, and gains
    nothing by that. Without `single` it is the curve's own point on one node. It is one of the same
    machine: of another there is no speed-up.
    """
    key = [*ONE_NODE_KEY, "machine"]
    one_node = curves[curves["nodes"] == 1].rename(columns={"examples_per_s": "base"})
    single = one_node.loc[one_node["strategy"] == SINGLE, [*key, "base"]]
    own = one_node[[*key, "strategy", "base"]]
    of_single = curves.merge(single, "left", key)["base"]
    of_own = curves.merge(own, "left", [*key, "strategy"])["base"]
    speedup = curves["examples_per_s"] / of_single.fillna(of_own)
    return curves.assign(speedup=speedup, efficiency=speedup / curves["nodes"])

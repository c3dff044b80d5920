"""Build the tables of a study from its records. Without records they are empty."""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nodewise.core.cell import WATTS_PER_CORE
from nodewise.core.errors import UserError
from nodewise.core.exchanges import Exchange
from nodewise.core.intervals import pooled_factors
from nodewise.core.schema import read_json
from nodewise.results.columns import AXES, COLUMNS, CURVE_KEY, ONE_NODE_KEY, PARTS, SINGLE, SPLIT
from nodewise.results.curve_points import imported_points, measured_points, published_points
from nodewise.results.curves import Curve
from nodewise.results.importers import import_curves
from nodewise.results.noise_scale import NoiseScale
from nodewise.results.record import Measurement, Record, read_record
from nodewise.results.table_files import typed

# Cautions: reasons why numbers may mislead, as in the column `flags`.
OVERSUBSCRIBED = "more workers than cores"
NO_LINKS = "no network emulation"
SEVERAL_MACHINES = "launches on several machines"
_BETWEEN = "; "

# The same for all launches of a curve point. The cell is that of the first launch.
_ALIKE = ["exchange", "options", "pipeline", "machine", "nodes_per_machine", "cpu_share"]
_ALIKE += ["rate_mbit", "latency_ms", "global_batch", "payload_bytes", "steps_per_epoch", "cell_id"]
# medians over the launches of a curve point
_MEDIANS = ["step_time_s", "input_s", "train_time_s", "train_accuracy", "test_accuracy"]
_MEDIANS += [*SPLIT, "bytes_sent_per_step"]


def build_tables(
    record_paths: Sequence[Path],
    published: pd.DataFrame | None = None,
    *,
    watts_per_core: float = WATTS_PER_CORE,
    published_runs: pd.DataFrame | None = None,
    noise_scale_paths: Sequence[Path] = (),
    curve_paths: Sequence[Path] = (),
) -> dict[str, pd.DataFrame]:
    """Return the tables of a study, by the names in `COLUMNS`.

    Args:
        record_paths: record files, in any order.
        published: the points of the NTUA study, or None for an empty table.
        watts_per_core: power of a busy core in watts, for cells without metered energy.
        published_runs: the trainings of other published studies, or None for an empty table.
        noise_scale_paths: files of `nodewise measure-noise-scale`, one per model.
        curve_paths: files of curves that the study shows together with its own.

    Raises:
        UserError: a file does not fit its schema, two records are of the same cell, two noise
            scales are of the same model, or a curve does not fit into the tables.
    """
    records = [read_record(path) for path in record_paths]
    _check_once(record_paths, [record.cell.id for record in records], "record of cell")
    records.sort(key=lambda record: [*axes(record).values()][1:])
    cells = typed((cell_row(record, watts_per_core) for record in records), COLUMNS["cells"])
    curves = _curves_table(cells)
    published = typed(published if published is not None else (), COLUMNS["published"])
    imported = imported_points(_read_curves(curve_paths))
    points = measured_points(curves, cells), published_points(published), imported
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


def _read_curves(paths: Sequence[Path]) -> list[Curve]:
    """Read files of curves; each needs a name of its own, times in seconds and whole batches."""
    read = [(path, curve) for path in paths for curve in import_curves(path).curves]
    for path, curve in read:
        if not curve.in_seconds:
            raise UserError(f"{path}: curve {curve.name!r}: needs examples, for seconds of a step")
        if any(batch % 1 for batch in curve.batches):
            raise UserError(f"{path}: curve {curve.name!r}: needs whole batches per worker")
    _check_once([path for path, _ in read], [curve.name for _, curve in read], "curve")
    return [curve for _, curve in read]


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
        of_point[_MEDIANS].median(),
        done.drop_duplicates(CURVE_KEY).set_index(CURVE_KEY)[_ALIKE],
        of_point.size().rename("repeats"),
        of_point["oversubscribed"].any(),
        of_point["weights"].max(),  # "random" if it is so in any launch
        of_point["flags"].agg(_cautions_of_launches),
    ]
    rows = pd.concat(parts, axis=1).reset_index()
    failed = cells[cells["status"] != "ok"].groupby(AXES).size().rename("failed").reset_index()
    lost = rows.merge(failed, "left", AXES)["failed"].fillna(0)
    step_time = rows["step_time_s"].where(rows["step_time_s"] > 0)
    rows = rows.assign(
        examples_per_s=rows["global_batch"] / step_time,
        epoch_time_s=rows["step_time_s"] * rows["steps_per_epoch"].astype(float),
        failed=lost,
        cells=rows["repeats"] + lost,
    )
    rows = _with_one_node(with_intervals(rows, done, CURVE_KEY))
    speedup = rows["examples_per_s"] / rows["examples_per_s_one"]
    rows = rows.assign(speedup=speedup, efficiency=speedup / rows["nodes"])
    return typed(rows.fillna({"cell_id_one": ""}), COLUMNS["curves"])


def join_cautions(*cautions: str) -> str:
    """Join cautions to one text, without empty ones and duplicates."""
    return _BETWEEN.join(filter(None, dict.fromkeys(cautions)))


def _cautions_of_launches(launches: Collection[str]) -> str:
    """Return the cautions of a point: those of its launches, if at least half of them have any.

    If fewer do, the median over launches is robust against them, and the point has none.
    """
    cautious = [of for of in launches if of]
    if 2 * len(cautious) < len(launches):
        return ""
    return join_cautions(*(one for of in cautious for one in of.split(_BETWEEN)))


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
    pools = points.dropna(subset="launches").groupby(["kind", "experiment", "alone", "caution"])
    for _, pool in pools:
        factor[pool.index] = pooled_factors(pool["launches"].tolist())
    return curves.assign(
        step_time_low_s=curves["step_time_s"] / factor,
        step_time_high_s=curves["step_time_s"] * factor,
        epoch_time_low_s=curves["epoch_time_s"] / factor,
        epoch_time_high_s=curves["epoch_time_s"] * factor,
    )


def _with_one_node(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the curve points with the rate and the cell of their one-node reference: `…_one`.

    It is measured on the same machine: the point of `single`, the same loop without communication,
    so that a strategy gains nothing by being slow on one node, else the point of the same strategy.
    Without a reference, values are NaN.
    """
    at, values = [*ONE_NODE_KEY, "machine"], ["examples_per_s", "cell_id"]
    one = rows.loc[rows["nodes"] == 1, [*at, "strategy", *values]]
    single = one[one["strategy"] == SINGLE].drop(columns="strategy")
    of_single = rows.merge(single, "left", at, suffixes=("", "_one"))
    of_itself = rows.merge(one, "left", [*at, "strategy"], suffixes=("", "_one"))
    return of_single.fillna(of_itself)


def axes(record: Record) -> dict[str, Any]:
    """Return the columns that identify the cell of a row."""
    cell = record.cell
    return {
        "cell_id": cell.id,
        "study": cell.study,
        "experiment": cell.experiment,
        "model": cell.model,
        "dataset": cell.dataset,
        "strategy": cell.strategy_name,
        "cluster": cell.cluster.label,
        "batch_per_worker": cell.batch,
        "nodes": cell.nodes,
        "repeat": cell.repeat,
    }


def cell_row(record: Record, watts_per_core: float) -> dict[str, Any]:
    """Return the row of `cells`. Columns of results stay empty if the cell has none."""
    cell, result = record.cell, record.result
    oversubscribed = result.oversubscribed if result else cell.cores > record.provenance.cores
    has_links = record.kind == "measured" or NO_LINKS not in record.provenance.network
    rate_mbit = cell.cluster.link_bit_s / 1e6
    row = axes(record) | {
        "global_batch": cell.global_batch,
        "exchange": record.exchange.name,
        "options": json.dumps(cell.options, sort_keys=True),
        "status": record.status,
        "reason": record.failure.reason if record.failure else "",
        "kind": record.kind,
        "data_origin": record.data.origin if record.data else "",
        "machine": record.provenance.cpu,
        "weights": _weights(record),
        "oversubscribed": oversubscribed,
        "flags": join_cautions(
            OVERSUBSCRIBED if oversubscribed else "",
            "" if has_links else NO_LINKS,
            *(result.conditions.outside if result else ()),
        ),
        "input": cell.input,
        "preprocessing_nodes": cell.preprocessing_nodes,
        "nodes_per_machine": cell.cluster.per_machine,
        "cpu_share": cell.cluster.share,
        "rate_mbit": rate_mbit if has_links and np.isfinite(rate_mbit) else np.nan,
        "latency_ms": 1e3 * cell.cluster.latency_s if has_links else 0.0,
        "energy_kind": "",
        "whole_epochs": cell.extent.epochs is not None,
        "started_at": record.started_at,
        "commit": record.provenance.commit or "",
    }
    return row | (_measured(record, result, watts_per_core) if result else {})


def _weights(record: Record | NoiseScale) -> str:
    """Return the initial weights: `pretrained`, `random` if these were not available, or empty.

    It is empty if the model is not meant to start from pretrained weights.
    """
    if record.weights is None:
        return ""
    return "random" if record.weights.origin == "random" else "pretrained"


def _measured(record: Record, result: Measurement, watts_per_core: float) -> dict[str, Any]:
    """Return the columns of results, in the node's own time: wall time × share of a core."""
    cell, share, conditions = record.cell, record.cell.cluster.share, result.conditions
    reference_us = (conditions.reference_before_us, conditions.reference_after_us)
    step_time = result.elapsed_s / result.steps * share
    # CPU time of the others includes warm-up and split steps
    timed = result.steps / (result.steps + cell.extent.untimed_steps)
    cpu_s = sum(worker.cpu_s for worker in result.workers) + result.others_cpu_s * timed
    metered = result.energy_j is not None
    return {
        "whole_epochs": result.whole_epochs,
        "steps": result.steps,
        "steps_per_epoch": result.steps_per_epoch,
        "epochs": len(result.epochs),
        "step_time_s": step_time,
        "step_time_median_s": np.median(_mean_s(w.step_us for w in result.workers)) * share,
        "input_s": np.mean([w.input_us for w in result.workers]) / result.steps / 1e6 * share,
        "examples_per_s": cell.global_batch / step_time if step_time else np.nan,
        "epoch_time_s": step_time * result.steps_per_epoch,
        "train_time_s": result.elapsed_s * share,
        "train_accuracy": result.epochs[-1].accuracy,
        "test_accuracy": result.test.accuracy if result.test else np.nan,
        "trainable_parameters": result.trainable_parameters,
        "payload_bytes": result.payload_bytes,
        "bytes_sent_per_step": np.mean([w.bytes_sent for w in result.workers]) / result.steps,
        "energy_j": result.energy_j if metered else cpu_s * watts_per_core,
        "energy_kind": "measured" if metered else "estimated",
        **_split_times(result, record.exchange, share),
        "reference_s": np.mean(reference_us) / 1e6,
        "first_timed_step_s": result.start_up.first_timed_step_s,
    }


def _mean_s(of_workers: Iterable[Sequence[int]]) -> NDArray[np.float64]:
    """Return the mean seconds of each step over the workers, from microseconds."""
    return np.asarray(np.mean([*of_workers], axis=0) / 1e6)


def _split_times(result: Measurement, exchange: Exchange, share: float) -> dict[str, float]:
    """Return the seconds of a split step and of its parts, and the share that the parts add up to.

    All are means over the workers. The step is the median over steps. Each part is its share of the
    sum of all steps, times that median, because medians of parts would not add up. If only some
    steps exchange data, the step is the mean, like other step times. Old records have
    no step time around the parts; for them the step is the sum of the parts.
    """
    splits = [worker.split for worker in result.workers if worker.split is not None]
    if not splits:
        return {}
    parts = np.array([_mean_s(getattr(split, f"{part}_us") for split in splits) for part in PARTS])
    around = _mean_s(split.step_us for split in splits)
    steps = around if around.size else parts.sum(axis=0)
    middle = np.mean if exchange.waits == "once in τ steps" else np.median
    step = float(middle(steps)) * share
    shares = parts.sum(axis=1) / max(steps.sum(), 1e-9)
    times = dict(zip(SPLIT, (shares * step).tolist(), strict=True))
    return times | {"split_step_s": step, "split_timed": shares.sum() if around.size else np.nan}


def epoch_rows(record: Record) -> Iterator[dict[str, Any]]:
    """Yield the rows of `epochs`."""
    if record.result is None or record.data is None:
        return
    kind = {"kind": record.kind, "data_origin": record.data.origin, "weights": _weights(record)}
    for epoch in record.result.epochs:
        seconds = epoch.seconds * record.cell.cluster.share
        yield axes(record) | epoch.model_dump() | kind | {"seconds": seconds}


def observation_rows(record: Record) -> Iterator[dict[str, Any]]:
    """Yield the rows of `observations`: values noted by the strategy, over all workers.

    Observations whose names end in `_s` are converted to seconds of the node's own time.
    """
    noted: dict[str, list[float]] = {}
    for worker in record.result.workers if record.result else ():
        for name, values in worker.observed.items():
            noted.setdefault(name, []).extend(values)
    for name, values in noted.items():
        seen = pd.Series(values) * (record.cell.cluster.share if name.endswith("_s") else 1)
        if len(seen):
            yield {
                "cell_id": record.cell.id,
                "observation": name,
                "values": len(seen),
                "mean": seen.mean(),
                "median": seen.median(),
                "p90": seen.quantile(0.9),
                "largest": seen.max(),
            }


def noise_rows(measured: NoiseScale) -> Iterator[dict[str, Any]]:
    """Yield the rows of `noise_scale`, one per point and group.

    The column `noise_scale` is computed from all groups of the point together.
    """
    for point in measured.points:
        noise, signal = measured.estimates(point)
        whole = noise.mean() / signal.mean() if signal.mean() > 0 else np.nan
        for group, (of_noise, of_signal) in enumerate(zip(noise, signal, strict=True), 1):
            yield {
                "model": measured.model,
                "dataset": measured.data.dataset,
                "kind": measured.kind,
                "data_origin": measured.data.origin,
                "weights": _weights(measured),
                "step": point.step,
                "group": group,
                "small_batch": measured.small_batch,
                "big_batch": measured.big_batch,
                "noise": of_noise,
                "signal": of_signal,
                "noise_scale": whole,
            }

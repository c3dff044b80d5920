"""Records -> tidy tables. Times are seconds, sizes are bytes, everywhere.

The columns of every table are declared below, and a table has them whatever the records hold:
without a single record the tables are empty, and still have their columns and types.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nodewise.core.cell import WATTS_PER_CORE, Cell
from nodewise.core.errors import UserError
from nodewise.core.files import atomic, file_sha256
from nodewise.core.intervals import with_intervals
from nodewise.results.noise_scale import NoiseScale, read_noise_scale
from nodewise.results.record import Measurement, Record, read_record

# texts as Python's own: tables are small, and little of them is taken at a time
pd.set_option("mode.string_storage", "python")

Seconds = NDArray[np.float64]

# The exchanges of records before cells said theirs.
_EXCHANGES = {
    **dict.fromkeys(("custom_loop", "horovod", "mpi", "multi_worker_mirrored"), "ring"),
    **dict.fromkeys(("async_sgd", "parameter_server"), "server"),
    **dict.fromkeys(("hybrid", "model_parallel", "split_dense", "tensor_parallel"), "activations"),
    "compressed_sgd": "all-gather",
    "mirrored": "devices",
    "parameter_averaging": "averaging",
    "single": "none",
}
SINGLE = "single"  # the strategy without communication: the base of every speed-up

AXES = {
    "study": "str",
    "experiment": "str",
    "model": "str",
    "dataset": "str",
    "strategy": "str",
    "cluster": "str",
    "batch_per_worker": "int64",
    "nodes": "int64",
}
PARTS = ("compute", "wait", "communicate", "apply")
SPLIT = {f"{part}_s": "float64" for part in PARTS}

CELLS = {
    "cell_id": "str",
    **AXES,
    "repeat": "int64",
    "global_batch": "int64",
    "exchange": "str",
    "options": "str",
    "status": "str",
    "reason": "str",
    "kind": "str",
    "data_origin": "str",
    "machine": "str",
    "weights": "str",
    "oversubscribed": "bool",
    "flags": "str",
    "input": "str",
    "preprocessing_nodes": "Int64",
    "time_dilation": "float64",
    "steps": "Int64",
    "steps_per_epoch": "Int64",
    "whole_epochs": "bool",
    "epochs": "Int64",
    "step_time_s": "float64",
    "step_time_wall_s": "float64",
    "step_time_normalised_s": "float64",
    "step_time_median_s": "float64",
    "step_time_p10_s": "float64",
    "step_time_p90_s": "float64",
    "input_s": "float64",
    "examples_per_s": "float64",
    "epoch_time_s": "float64",
    "train_time_s": "float64",
    "train_loss": "float64",
    "train_accuracy": "float64",
    "test_loss": "float64",
    "test_accuracy": "float64",
    "trainable_parameters": "Int64",
    "payload_bytes": "Int64",
    "bytes_sent_per_step": "float64",
    "energy_j": "float64",
    "energy_kind": "str",
    **SPLIT,
    "compute_normalised_s": "float64",
    "split_step_s": "float64",
    "split_timed": "float64",
    "reference_s": "float64",
    "discarded_blocks": "Int64",
    "first_timed_step_s": "float64",
    "started_at": "datetime64[us, UTC]",
    "commit": "str",
    "record_sha256": "str",
}
EPOCHS = {
    "cell_id": "str",
    **AXES,
    "repeat": "int64",
    "epoch": "int64",
    "steps": "int64",
    "seconds": "float64",
    "loss": "float64",
    "accuracy": "float64",
    "kind": "str",
    "data_origin": "str",
    "weights": "str",
}
STEPS = {"cell_id": "str", "step": "int64", "step_time_s": "float64"}
OBSERVATIONS = {
    "cell_id": "str",
    "observation": "str",
    "values": "int64",
    "mean": "float64",
    "median": "float64",
    "p90": "float64",
    "largest": "float64",
}
CURVE_KEY = [*AXES, "kind", "data_origin", "whole_epochs"]
CURVES = {
    **AXES,
    "kind": "str",
    "data_origin": "str",
    "whole_epochs": "bool",
    "exchange": "str",
    "options": "str",
    "pipeline": "str",
    "machine": "str",
    "repeats": "int64",
    "weights": "str",
    "oversubscribed": "bool",
    "flags": "str",
    "step_time_s": "float64",
    "step_time_low_s": "float64",
    "step_time_high_s": "float64",
    "step_time_normalised_s": "float64",
    "input_s": "float64",
    "examples_per_s": "float64",
    "epoch_time_s": "float64",
    "epoch_time_low_s": "float64",
    "epoch_time_high_s": "float64",
    "train_time_s": "float64",
    "train_accuracy": "float64",
    "test_accuracy": "float64",
    "speedup": "float64",
    "efficiency": "float64",
    **SPLIT,
    "compute_normalised_s": "float64",
    "bytes_sent_per_step": "float64",
    "payload_bytes": "Int64",
    "steps_per_epoch": "Int64",
    "cells": "int64",
    "failed": "int64",
    "cell_id": "str",
}
_ALIKE = (  # of all launches of a point of a curve, but for the cell: that of the first
    *("exchange", "options", "pipeline", "machine", "global_batch"),
    *("payload_bytes", "steps_per_epoch", "cell_id"),
)
MIDDLES = (  # of a point of a curve: medians over its launches
    *("step_time_s", "step_time_normalised_s", "input_s"),
    *("train_time_s", "train_accuracy", "test_accuracy"),
    *(*SPLIT, "compute_normalised_s", "bytes_sent_per_step"),
)
NOISE_SCALE = {
    "model": "str",
    "dataset": "str",
    "kind": "str",
    "data_origin": "str",
    "weights": "str",
    "step": "int64",
    "group": "int64",
    "small_batch": "int64",
    "big_batch": "int64",
    "noise": "float64",
    "signal": "float64",
    "noise_scale": "float64",
}
PUBLISHED = {
    "study": "str",
    "model": "str",
    "dataset": "str",
    "batch_per_worker": "int64",
    "nodes": "int64",
    "epochs": "int64",
    "training_time_s": "float64",
    "training_accuracy": "float64",
    "steps": "Int64",
    "step_time_s": "float64",
    "payload_bytes": "Int64",
    "kind": "str",
    "printed_dataset": "str",
    "printed_batch": "Int64",
}
PUBLISHED_RUNS = {
    "study": "str",
    "model": "str",
    "dataset": "str",
    "strategy": "str",
    "printed_name": "str",
    "nodes": "int64",
    "batch_per_worker": "Int64",
    "epochs": "int64",
    "training_time_s": "float64",
    "step_time_s": "float64",
    "examples_per_s": "float64",
    "speedup": "float64",
    "training_accuracy": "float64",
    "test_accuracy": "float64",
    "kind": "str",
}
COLUMNS = {
    "cells": CELLS,
    "epochs": EPOCHS,
    "steps": STEPS,
    "observations": OBSERVATIONS,
    "curves": CURVES,
    "noise_scale": NOISE_SCALE,
    "published": PUBLISHED,
    "published_runs": PUBLISHED_RUNS,
}

OVERSUBSCRIBED = "more workers than cores"
NO_LINKS = "no network emulation"
SEVERAL_MACHINES = "launches on several machines"


def build_tables(
    record_paths: Sequence[Path],
    published: pd.DataFrame | None,
    watts_per_core: float = WATTS_PER_CORE,
    published_runs: pd.DataFrame | None = None,
    noise_scale_paths: Sequence[Path] = (),
) -> dict[str, pd.DataFrame]:
    """Return the tables of a study, by the names in `COLUMNS`.

    Args:
        record_paths: record files, in any order.
        published: the points of the NTUA study, or None for an empty table.
        watts_per_core: what a busy core draws, for cells whose energy no meter counted.
        published_runs: the trainings of the other studies, or None for an empty table.
        noise_scale_paths: what `nodewise measure-noise-scale` wrote, one file per model.

    Raises:
        UserError: a file does not fit its schema, or two files hold the same cell.
    """
    found = _read_all(record_paths)
    records = [record for _, record in found]
    usual = _usual_reference_us(records)
    rows = [
        _cell_row(record, usual, watts_per_core) | {"record_sha256": file_sha256(path)}
        for path, record in found
    ]
    cells = typed(rows, CELLS)
    return {
        "cells": cells,
        "epochs": typed((row for record in records for row in _epoch_rows(record)), EPOCHS),
        "steps": _steps_table(records),
        "observations": typed(
            (row for record in records for row in _observation_rows(record)), OBSERVATIONS
        ),
        "curves": _curves_table(cells),
        "noise_scale": typed(
            (row for path in noise_scale_paths for row in _noise_rows(read_noise_scale(path))),
            NOISE_SCALE,
        ),
        "published": typed(published if published is not None else (), PUBLISHED),
        "published_runs": typed(
            published_runs if published_runs is not None else (), PUBLISHED_RUNS
        ),
    }


def write_tables(tables: dict[str, pd.DataFrame], out_dir: Path) -> None:
    """Write each table as `NAME.csv` and `NAME.parquet`, each file in one atomic step."""
    for name, table in tables.items():
        write_csv(table, out_dir / f"{name}.csv")
        with atomic(out_dir / f"{name}.parquet") as path:
            table.to_parquet(path, index=False)


def read_tables(tables_dir: Path) -> dict[str, pd.DataFrame]:
    """Read back what `write_tables` wrote.

    Raises:
        UserError: a table is missing, is unreadable, or lacks a column.
    """
    return {name: read_parquet(tables_dir / f"{name}.parquet", COLUMNS[name]) for name in COLUMNS}


def typed(rows: pd.DataFrame | Iterable[dict[str, Any]], columns: dict[str, str]) -> pd.DataFrame:
    """Return `rows` as a table with exactly `columns` (name -> dtype), in that order."""
    table = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(list(rows), columns=[*columns])
    return table[[*columns]].astype(columns).reset_index(drop=True)


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV in one atomic step."""
    with atomic(path) as temporary:
        table.to_csv(temporary, index=False, lineterminator="\n", date_format="%Y-%m-%dT%H:%M:%SZ")


def read_csv(path: Path, columns: dict[str, str]) -> pd.DataFrame:
    """Read back what `write_csv` wrote of a table with these columns.

    Raises:
        UserError: the file is missing, is unreadable, or lacks a column.
    """
    texts = {name: dtype for name, dtype in columns.items() if dtype == "str"}
    with _told(path):
        return typed(pd.read_csv(path, dtype=texts).fillna(dict.fromkeys(texts, "")), columns)


def read_parquet(path: Path, columns: dict[str, str]) -> pd.DataFrame:
    """Read a table with these columns.

    Raises:
        UserError: the file is missing, is unreadable, or lacks a column.
    """
    with _told(path):
        return typed(pd.read_parquet(path), columns)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Tell in words what is wrong with a table that is read in the block."""
    try:
        yield
    except FileNotFoundError as error:
        raise UserError(f"{path}: there is no such table; make the tables first") from error
    except KeyError as error:
        raise UserError(f"{path}: a column is missing ({error.args[0]})") from error
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: is not a table of this version ({error})") from error


def _read_all(paths: Sequence[Path]) -> list[tuple[Path, Record]]:
    """Read the records, ordered by cell; a cell may be there once only."""
    found: dict[str, tuple[Path, Record]] = {}
    for path in paths:
        record = read_record(path)
        if record.cell.id in found:
            raise UserError(
                f"{path}: holds the cell {record.cell.id}, which {found[record.cell.id][0]} holds "
                "too; a cell may be measured once only (give repeats different numbers)"
            )
        found[record.cell.id] = (path, record)
    return sorted(found.values(), key=lambda one: [*_axes(one[1]).values()][1:])


def _axes(record: Record) -> dict[str, Any]:
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


def _usual_reference_us(records: Iterable[Record]) -> dict[str, float]:
    """Return each processor's median time of the reference step: what "normalised" refers to."""
    of_cpu: dict[str, list[float]] = {}
    for record in records:
        if record.result is not None:
            of_cpu.setdefault(record.provenance.cpu, []).append(_reference_us(record.result))
    return {cpu: float(np.median(times)) for cpu, times in of_cpu.items()}


def _reference_us(result: Measurement) -> float:
    """Return the CPU time of the reference step around the timed steps."""
    return (result.conditions.reference_before_us + result.conditions.reference_after_us) / 2


def _cell_row(
    record: Record, usual_reference_us: dict[str, float], watts_per_core: float
) -> dict[str, Any]:
    """One row of `cells`; what a cell without result cannot know stays empty."""
    cell = record.cell
    oversubscribed = (
        record.result.oversubscribed
        if record.result is not None
        else cell.cores > record.provenance.cores
    )
    exchange = cell.exchange or _exchange_before(cell)
    has_links = record.kind == "measured" or NO_LINKS not in record.provenance.network
    flags = [OVERSUBSCRIBED] * oversubscribed + [NO_LINKS] * (not has_links)
    row = _axes(record) | {
        "global_batch": cell.global_batch,
        "exchange": exchange,
        "options": json.dumps(cell.options, sort_keys=True),
        "status": record.status,
        "reason": record.failure.reason if record.failure else "",
        "kind": record.kind,
        "data_origin": record.data.origin if record.data else "",
        "machine": record.provenance.cpu,
        "weights": _weights(record),
        "oversubscribed": oversubscribed,
        "flags": "; ".join(flags),
        "input": cell.input,
        "preprocessing_nodes": cell.preprocessing_nodes,
        "energy_kind": "",
        "time_dilation": 1 / cell.cluster.share,
        "whole_epochs": cell.extent.epochs is not None,
        "started_at": record.started_at,
        "commit": record.provenance.commit or "",
    }
    if record.result is None:
        return row
    speed = usual_reference_us[record.provenance.cpu] / _reference_us(record.result)
    measured = _measured(record.result, cell, exchange, speed, watts_per_core)
    flags += record.result.conditions.outside
    return row | measured | {"flags": "; ".join(flags)}


def _exchange_before(cell: Cell) -> str:
    """Return the exchange of a cell whose record was written when records did not say it."""
    return str(cell.options.get("collective", _EXCHANGES[cell.strategy]))


def _weights(record: Record | NoiseScale) -> str:
    """Return what training started from: `random` only where pretrained weights were meant."""
    if record.weights is None:
        return ""
    return "random" if record.weights.origin == "random" else "pretrained"


def _measured(
    result: Measurement, cell: Cell, exchange: str, speed: float, watts_per_core: float
) -> dict[str, Any]:
    """The results; times are the node's own, not those that its share of a core stretches.

    `speed` is that of the machine during the cell against its usual one. Normalised times are
    those that the usual machine would have taken: compute and apply are scaled, the rest is not.
    """
    share = cell.cluster.share
    steps = _step_times(result) * share
    p10, median, p90 = np.quantile(steps if steps.size else [np.nan], [0.1, 0.5, 0.9])
    step_time = result.elapsed_s / result.steps * share
    split = _split_times(result, exchange, share)
    last = result.epochs[-1]
    computing = (
        step_time if cell.nodes == 1 else split.get("compute_s", 0) + split.get("apply_s", 0)
    )
    return {
        "whole_epochs": result.whole_epochs,
        "steps": result.steps,
        "steps_per_epoch": result.steps_per_epoch,
        "epochs": len(result.epochs),
        "step_time_s": step_time,
        "step_time_median_s": median,
        "step_time_p10_s": p10,
        "step_time_p90_s": p90,
        "step_time_wall_s": step_time / share,
        "input_s": np.mean([sum(w.input_us) for w in result.workers]) / result.steps / 1e6 * share,
        "step_time_normalised_s": step_time - computing * (1 - speed),
        "examples_per_s": cell.global_batch / step_time if step_time else np.nan,
        "epoch_time_s": step_time * result.steps_per_epoch,
        "train_time_s": result.elapsed_s * share,
        "train_loss": last.loss,
        "train_accuracy": last.accuracy,
        "test_loss": result.test.loss if result.test else np.nan,
        "test_accuracy": result.test.accuracy if result.test else np.nan,
        "trainable_parameters": result.trainable_parameters,
        "payload_bytes": result.payload_bytes,
        "bytes_sent_per_step": np.mean([w.bytes_sent for w in result.workers]) / result.steps,
        **_energy(result, cell, watts_per_core),
        **split,
        "compute_normalised_s": split.get("compute_s", np.nan) * speed,
        "reference_s": _reference_us(result) / 1e6,
        "discarded_blocks": len(result.discarded),
        "first_timed_step_s": result.start_up.first_timed_step_s,
    }


def _energy(result: Measurement, cell: Cell, watts_per_core: float) -> dict[str, Any]:
    """The energy of the timed steps: as metered, else CPU time of all nodes × declared watts."""
    if result.energy_j is not None:
        return {"energy_j": result.energy_j, "energy_kind": "measured"}
    # the others were watched during warm-up and split steps, too
    timed = result.steps / (result.steps + cell.extent.untimed_steps)
    cpu_s = sum(worker.cpu_s for worker in result.workers) + result.others_cpu_s * timed
    return {"energy_j": cpu_s * watts_per_core, "energy_kind": "estimated"}


def _step_times(result: Measurement) -> Seconds:
    """Seconds of each timed step, mean over the workers."""
    return _mean_s(worker.step_us for worker in result.workers)


def _mean_s(of_workers: Iterable[Sequence[int]]) -> Seconds:
    """Seconds of each step, mean over the workers that have it, from microseconds of each."""
    workers = [np.asarray(steps_us, dtype=np.float64) for steps_us in of_workers]
    if len({len(steps_us) for steps_us in workers}) == 1:
        return np.asarray(np.mean(workers, axis=0) / 1e6)
    steps = [*zip_longest(*workers, fillvalue=np.nan)]
    return np.nanmean(steps, axis=1) / 1e6 if steps else np.empty(0)


def _split_times(result: Measurement, exchange: str, share: float) -> dict[str, float]:
    """Seconds of a split-form step and of its parts, mean over the workers; what they add up to.

    The step is the median of the steps, and a part has the share that it has of all steps together:
    medians of parts would not add up to it. Where only some steps exchange anything the step is the
    mean, as step times are. What is timed around the parts was not in records at first.
    """
    splits = [worker.split for worker in result.workers if worker.split is not None]
    if not splits:
        return {}
    parts = np.array([_mean_s(getattr(split, f"{part}_us") for split in splits) for part in PARTS])
    around = _mean_s(split.step_us for split in splits)
    steps = around if around.size else parts.sum(axis=0)
    step = float(np.mean(steps) if exchange == "averaging" else np.median(steps)) * share
    shares = parts.sum(axis=1) / max(steps.sum(), 1e-9)
    times = dict(zip(SPLIT, (shares * step).tolist(), strict=True))
    return times | {"split_step_s": step, "split_timed": shares.sum() if around.size else np.nan}


def _epoch_rows(record: Record) -> list[dict[str, Any]]:
    if record.result is None or record.data is None:
        return []
    kind = {
        "kind": record.kind,
        "data_origin": record.data.origin,
        "weights": _weights(record),
    }
    share = record.cell.cluster.share
    return [
        _axes(record) | epoch.model_dump() | kind | {"seconds": epoch.seconds * share}
        for epoch in record.result.epochs
    ]


def _steps_table(records: Sequence[Record]) -> pd.DataFrame:
    times = {
        record.cell.id: _step_times(record.result) * record.cell.cluster.share
        for record in records
        if record.result is not None
    }
    counts = [len(seconds) for seconds in times.values()]
    rows = {
        "cell_id": np.repeat(np.array([*times], dtype=object), np.array(counts, dtype=int)),
        "step": np.concatenate([np.arange(count) + 1 for count in (0, *counts)]),
        "step_time_s": np.concatenate([np.empty(0), *times.values()]),
    }
    return typed(pd.DataFrame(rows), STEPS)


def _observation_rows(record: Record) -> list[dict[str, Any]]:
    """What the strategy noted of its own, all workers together; `…_s` are seconds, as times are."""
    noted: dict[str, list[float]] = {}
    for worker in record.result.workers if record.result else ():
        for name, values in worker.observed.items():
            noted.setdefault(name, []).extend(values)
    rows = []
    for name, values in noted.items():
        if not values:
            continue
        seen = pd.Series(values) * (record.cell.cluster.share if name.endswith("_s") else 1)
        rows.append(
            {
                "cell_id": record.cell.id,
                "observation": name,
                "values": len(seen),
                "mean": seen.mean(),
                "median": seen.median(),
                "p90": seen.quantile(0.9),
                "largest": seen.max(),
            }
        )
    return rows


def _noise_rows(measured: NoiseScale) -> Iterator[dict[str, Any]]:
    """Yield one row per point and group; the noise scale is that of the point's groups together."""
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


def _curves_table(cells: pd.DataFrame) -> pd.DataFrame:
    """One row per curve point: the launches of a cell that ran to their end, together.

    Results are medians over the launches; rates and epoch times follow from the median step time.
    """
    done = cells[cells["status"] == "ok"].rename(columns={"input": "pipeline"})
    of_point = done.groupby(CURVE_KEY)
    parts = [
        of_point[[*MIDDLES]].median(),
        done.drop_duplicates(CURVE_KEY).set_index(CURVE_KEY)[[*_ALIKE]],
        of_point.size().rename("repeats"),
        of_point["oversubscribed"].any(),
        of_point["weights"].max(),  # "random" if one launch had to
    ]
    rows = pd.concat(parts, axis=1).reset_index()
    failed = cells[cells["status"] != "ok"].groupby([*AXES]).size().rename("failed").reset_index()
    lost = rows.merge(failed, "left", [*AXES])["failed"].fillna(0)
    step_time = rows["step_time_s"].where(rows["step_time_s"] > 0)
    rows = rows.assign(
        flags=_cautions(done, rows[CURVE_KEY]),
        examples_per_s=rows["global_batch"] / step_time,
        epoch_time_s=rows["step_time_s"] * rows["steps_per_epoch"].astype(float),
        failed=lost,
        cells=rows["repeats"] + lost,
    )
    return typed(_with_speedup(with_intervals(rows, done, CURVE_KEY)), CURVES)


def _cautions(done: pd.DataFrame, points: pd.DataFrame) -> "pd.Series[str]":
    """Return the cautions of each point: those of its launches, if half of them or more have any.

    A median holds against fewer. Launches on several machines are a caution of their own.
    """
    of_point = done.groupby(CURVE_KEY)
    mixed = of_point["machine"].transform("nunique") > 1
    told = done.assign(flags=done["flags"].mask(mixed, _with_machines))
    told = told[told["flags"] != ""].groupby(CURVE_KEY)["flags"].agg([_each_once, "size"])
    known = points.merge(told.reset_index(), "left", CURVE_KEY)
    launches = points.merge(of_point.size().rename("launches").reset_index(), "left", CURVE_KEY)
    return known["_each_once"].where(2 * known["size"] >= launches["launches"], "")


def _with_machines(flags: "pd.Series[str]") -> "pd.Series[str]":
    return (flags + "; " + SEVERAL_MACHINES).str.removeprefix("; ")


def _each_once(flags: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys("; ".join(flags).split("; ")))


def _with_speedup(curves: pd.DataFrame) -> pd.DataFrame:
    """Fill speed-up and efficiency against one node: the same loop without communication.

    That is `single`, whatever a way itself does on one node: it may be slow there, and gains
    nothing by that. Without `single` it is the curve's own point on one node. It is one of the same
    machine: of another there is no speed-up.
    """
    key = [*(name for name in CURVE_KEY if name not in ("strategy", "nodes")), "machine"]
    one_node = curves[curves["nodes"] == 1].rename(columns={"examples_per_s": "base"})
    single = one_node.loc[one_node["strategy"] == SINGLE, [*key, "base"]]
    own = one_node[[*key, "strategy", "base"]]
    of_single = curves.merge(single, "left", key)["base"]
    of_own = curves.merge(own, "left", [*key, "strategy"])["base"]
    speedup = curves["examples_per_s"] / of_single.fillna(of_own)
    return curves.assign(speedup=speedup, efficiency=speedup / curves["nodes"])

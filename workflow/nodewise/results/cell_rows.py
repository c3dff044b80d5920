"""Build table rows from records: of the tables cells, epochs and observations."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nodewise.core.cell import Cell
from nodewise.core.exchanges import Exchange
from nodewise.results.cautions import NO_LINKS, OVERSUBSCRIBED, join_cautions
from nodewise.results.columns import PARTS, SPLIT
from nodewise.results.noise_scale import NoiseScale
from nodewise.results.record import Measurement, Record


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
    cell = record.cell
    oversubscribed = (
        record.result.oversubscribed
        if record.result is not None
        else cell.cores > record.provenance.cores
    )
    rate_mbit = cell.cluster.link_bit_s / 1e6
    has_links = record.kind == "measured" or NO_LINKS not in record.provenance.network
    flags = [OVERSUBSCRIBED] if oversubscribed else []
    flags += [] if has_links else [NO_LINKS]
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
        "flags": join_cautions(*flags),
        "input": cell.input,
        "preprocessing_nodes": cell.preprocessing_nodes,
        "nodes_per_machine": cell.cluster.per_machine,
        "cpu_share": cell.cluster.share,
        "rate_mbit": rate_mbit if np.isfinite(rate_mbit) else np.nan,
        "latency_ms": 1e3 * cell.cluster.latency_s,
        "energy_kind": "",
        "whole_epochs": cell.extent.epochs is not None,
        "started_at": record.started_at,
        "commit": record.provenance.commit or "",
    }
    if record.result is None:
        return row
    measured = _measured(record.result, cell, record.exchange, watts_per_core)
    flags += record.result.conditions.outside
    return row | measured | {"flags": join_cautions(*flags)}


def _weights(record: Record | NoiseScale) -> str:
    """Return the initial weights: `pretrained`, `random` if these were not available, or empty.

    It is empty if the model is not meant to start from pretrained weights.
    """
    if record.weights is None:
        return ""
    return "random" if record.weights.origin == "random" else "pretrained"


def _measured(
    result: Measurement, cell: Cell, exchange: Exchange, watts_per_core: float
) -> dict[str, Any]:
    """Return the columns of results, in the node's own time: wall time × share of a core."""
    share = cell.cluster.share
    conditions = result.conditions
    reference_us = (conditions.reference_before_us, conditions.reference_after_us)
    step_time = result.elapsed_s / result.steps * share
    return {
        "whole_epochs": result.whole_epochs,
        "steps": result.steps,
        "steps_per_epoch": result.steps_per_epoch,
        "epochs": len(result.epochs),
        "step_time_s": step_time,
        "step_time_median_s": np.median(_mean_s(w.step_us for w in result.workers)) * share,
        "input_s": np.mean([sum(w.input_us) for w in result.workers]) / result.steps / 1e6 * share,
        "examples_per_s": cell.global_batch / step_time if step_time else np.nan,
        "epoch_time_s": step_time * result.steps_per_epoch,
        "train_time_s": result.elapsed_s * share,
        "train_accuracy": result.epochs[-1].accuracy,
        "test_accuracy": result.test.accuracy if result.test else np.nan,
        "trainable_parameters": result.trainable_parameters,
        "payload_bytes": result.payload_bytes,
        "bytes_sent_per_step": np.mean([w.bytes_sent for w in result.workers]) / result.steps,
        **_energy(result, cell, watts_per_core),
        **_split_times(result, exchange, share),
        "reference_s": np.mean(reference_us) / 1e6,
        "first_timed_step_s": result.start_up.first_timed_step_s,
    }


def _energy(result: Measurement, cell: Cell, watts_per_core: float) -> dict[str, Any]:
    """Return the energy of the timed steps: metered, or else CPU time × configured watts."""
    if result.energy_j is not None:
        return {"energy_j": result.energy_j, "energy_kind": "measured"}
    # CPU time of the others includes warm-up and split steps
    timed = result.steps / (result.steps + cell.extent.untimed_steps)
    cpu_s = sum(worker.cpu_s for worker in result.workers) + result.others_cpu_s * timed
    return {"energy_j": cpu_s * watts_per_core, "energy_kind": "estimated"}


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

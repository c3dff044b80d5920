"""Make synthetic, valid records for tests. They are never used as data of the project.

The step times follow a ring all-reduce on a made-up network, with made-up noise. Nothing in them
was measured.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nodewise.core.cell import Cell, Extent
from nodewise.core.files import write_text
from nodewise.predict.fit_curves import fit_curves
from nodewise.predict.fit_file import file_of, write_fit
from nodewise.predict.study import fitted_tables
from nodewise.results.record import Record, WorkerResult, record_json
from nodewise.results.table_files import write_tables
from nodewise.results.tables import build_tables

BATCHES = (32, 64, 128, 256, 512)
EXAMPLES = 60_000
PARAMETERS = 1_256_150
CORES = 2
COMPUTE_FIXED_S, COMPUTE_PER_EXAMPLE_S = 0.004, 0.00021
LATENCY_S, BANDWIDTH = 0.0004, 450e6
START = datetime(2027, 1, 5, 9, 0, tzinfo=UTC)
STARTED = ("imported_s", "workers_ready_s", "first_timed_step_s")
STEPS = Extent(warmup_steps=5, steps=40, split_steps=12)
EPOCHS = Extent(warmup_steps=5, epochs=5, split_steps=0)


def cell(**changes: Any) -> Cell:
    """Return a cell of the synthetic study.

    `changes` are fields that differ from the default cell. `n` sets the number of nodes and the
    strategy that fits it: `single` on one node, else `multi_worker_mirrored`.
    """
    nodes = changes.pop("n", 1)
    values: dict[str, Any] = {
        "study": "ntua",
        "experiment": "ntua_steps",
        "model": "fashion_cnn",
        "dataset": "fashion_mnist",
        "strategy": "single" if nodes == 1 else "multi_worker_mirrored",
        "cluster": {"kind": "local"},
        "batch": 64,
        "nodes": nodes,
        "repeat": 0,
        "extent": STEPS,
        "seed": 1,
        "time_limit_s": 600,
    }
    return Cell.model_validate(values | changes)


def parts_s(batch: int, nodes: int) -> dict[str, float]:
    """Return the seconds of each part of one step on the made-up machine."""
    slowdown = max(1.0, nodes / CORES)  # with more workers than cores, workers share the cores
    rounds = 2 * (nodes - 1)
    return {
        "compute": (COMPUTE_FIXED_S + COMPUTE_PER_EXAMPLE_S * batch) * slowdown,
        "wait": 0.0008 * (nodes - 1) * slowdown,
        "communicate": rounds * LATENCY_S + rounds / nodes * 4 * PARAMETERS / BANDWIDTH,
        "apply": 0.0012 * slowdown,
    }


def record(of: Cell, *, origin: str = "official", cpu: str = "Synthetic CPU") -> Record:
    """Return a valid record of a cell that finished, with data of `origin`, on processor `cpu`."""
    rng = np.random.default_rng([of.batch, of.nodes, of.repeat, of.extent.epochs or 0])
    parts = parts_s(of.batch, of.nodes)
    per_epoch = EXAMPLES // of.global_batch
    steps = of.extent.steps or (of.extent.epochs or 0) * per_epoch
    launch = rng.lognormal(0, 0.04)
    times = sum(parts.values()) * launch * rng.lognormal(0, 0.05, steps)
    payload = 4 * PARAMETERS
    sent = round(steps * payload * 2 * (of.nodes - 1) / of.nodes)
    workers = [
        {
            "rank": rank,
            "shard_examples": EXAMPLES // of.nodes,
            "step_us": np.round(times * 1e6 * rng.normal(1, 0.002, steps)).astype(int).tolist(),
            "input_us": int(np.round(times * 1e6 * 0.004).sum()),
            "elapsed_s": float(times.sum()),
            "cpu_s": float(times.sum() * 0.9),
            "bytes_sent": sent,
            "bytes_received": sent,
            "bytes_retransmitted": 0,
            "split": _split(parts, of.extent.split_steps, launch, rng),
        }
        for rank in range(of.nodes)
    ]
    return Record.model_validate(
        _frame(of, origin, cpu)
        | {
            "status": "ok",
            "result": {
                "trainable_parameters": PARAMETERS,
                "total_parameters": PARAMETERS,
                "payload_bytes": payload,
                "steps_per_epoch": per_epoch,
                "whole_epochs": of.extent.epochs is not None,
                "start_up": dict(zip(STARTED, (4.1, 5.9 + of.nodes, 7.4 + of.nodes), strict=True)),
                "workers": workers,
                "epochs": list(_epochs(of, per_epoch, times)),
                "test": {"examples": 10_000, "loss": 0.41, "accuracy": 0.857},
                "oversubscribed": of.nodes > CORES,
                "energy_j": None,
                "others_cpu_s": 0.0,
                "conditions": conditions(times.sum()),
                "discarded": [],
            },
            "failure": None,
        }
    )


def changed(record: Record, **result: Any) -> Record:
    """Return `record` with other values in its result."""
    tree = record.model_dump()
    tree["result"] |= result
    return Record.model_validate(tree)


def with_workers(record: Record, change: Callable[[WorkerResult], dict[str, Any]]) -> Record:
    """Return `record` with the values that `change` returns for each of its workers."""
    workers = [worker.model_dump() | change(worker) for worker in record.result.workers]
    return changed(record, workers=workers)


def conditions(window_s: float, **changes: Any) -> dict[str, Any]:
    """Return the conditions of a block on a quiet machine."""
    quiet = {"window_s": float(window_s), "stolen_s": 0.0, "foreign_cpu_s": 0.0}
    quiet |= {"reference_before_us": 5500, "reference_after_us": 5500, "nodes": [], "outside": []}
    return quiet | changes


def failed(of: Cell, reason: str, log_tail: Sequence[str] = (), status: str = "failed") -> Record:
    """Return a valid record of a cell without a result; `status` says whether it failed."""
    failure = {"reason": reason, "rank": of.nodes - 1, "log_tail": list(log_tail)}
    rest = {"status": status, "result": None, "failure": failure}
    return Record.model_validate(_frame(of, "official", "Synthetic CPU") | rest)


def grid(batches: Sequence[int] = BATCHES, repeats: int = 2) -> list[Record]:
    """Return records of cells on 1, 2 and 3 nodes.

    Cells that measure steps have the given batches and repeats, and the last of them failed. Cells
    that train whole epochs have two batches.
    """
    records = [
        record(cell(batch=batch, n=nodes, repeat=repeat))
        for batch, nodes, repeat in itertools.product(batches, (1, 2, 3), range(repeats))
    ]
    lost = records.pop()
    reason = "worker 2 did not finish in time"
    records.append(failed(lost.cell, reason, ["step 17 of 40", "killed after 600 s"]))
    for batch, nodes in itertools.product((256, 512), (1, 2, 3)):
        whole = cell(experiment="ntua_epochs", batch=batch, n=nodes, extent=EPOCHS)
        records.append(record(whole))
    return records


def launches(repeats: int = 3, **axes: Iterable[Any]) -> list[Record]:
    """Return the records of `repeats` launches of each combination of the values of `axes`."""
    return [
        record(cell(**dict(zip(axes, values, strict=True)), repeat=repeat))
        for *values, repeat in itertools.product(*axes.values(), range(repeats))
    ]


def noted(record: Record, **observed: list[float]) -> Record:
    """Return `record` with `observed` as the observations of each of its workers."""
    return with_workers(record, lambda _: {"observed": observed})


def varied() -> list[Record]:
    """Return records of a grid, of strategies with observations, of other studies, and failures."""

    def survey(strategy: str, **changes: Any) -> Cell:
        return cell(n=2, strategy=strategy, experiment="survey", **changes)

    def asu(strategy: str, nodes: int) -> Cell:
        about = {"study": "asu", "model": "mnist_cnn", "dataset": "mnist", "experiment": "asu"}
        whole = STEPS.model_copy(update={"steps": None, "epochs": 2})
        return cell(n=nodes, strategy=strategy, extent=whole, **about)

    bubbles = {"bubble_share": [0.25, 0.75], "pause_s": [0.5], "bytes_counted": [1_000_000.0]}
    mlp = {"study": "survey", "model": "fashion_mlp"}
    return [
        *grid(batches=(64, 512), repeats=3),
        *(record(asu(*way)) for way in (("single", 1), ("mirrored", 2), ("model_parallel", 2))),
        record(survey("parameter_averaging", variant="rarely", options={"period": 10})),
        record(survey("custom_loop", **mlp)),
        noted(record(survey("async_sgd", servers=1)), staleness=[0, 1, 2, 1]),
        noted(record(survey("model_parallel", input="whole")), **bubbles),
        failed(survey("mpi"), "there is no MPI"),
    ]


def write(records: Sequence[Record], folder: Path) -> list[Path]:
    """Write each record to `folder/<cell id>.json`, and return the paths."""
    paths = []
    for item in records:
        paths.append(folder / f"{item.cell.id}.json")
        write_text(paths[-1], record_json(item))
    return paths


def tables_of(
    records: Iterable[Record], folder: Path, published: pd.DataFrame | None = None
) -> dict[str, pd.DataFrame]:
    """Write each record into `folder`, and return the tables of all of them."""
    return build_tables(write([*records], folder), published)


def published() -> pd.DataFrame:
    """Return rows in the form of the table `published` for the model of `cell()`.

    The numbers are made up.
    """
    rows = []
    for batch, nodes in itertools.product(BATCHES, (1, 2, 3)):
        steps = 5 * (EXAMPLES // (batch * nodes))
        step = 0.012 + 0.0004 * batch + (nodes > 1) * 0.08 * (1 + nodes / 12)
        about = {"study": "ntua", "model": "fashion_cnn", "dataset": "fashion_mnist", "epochs": 5}
        about |= {"batch_per_worker": batch, "nodes": nodes, "steps": steps, "kind": "published"}
        rows.append(
            about
            | {
                "training_time_s": float(round(steps * step)),
                "training_accuracy": round(0.94 - 0.0001 * batch - 0.008 * (nodes - 1), 3),
                "step_time_s": round(steps * step) / steps,
                "payload_bytes": 4 * PARAMETERS,
                "printed_dataset": "Fashion MNIST" if batch == 32 else "MNIST",
            }
        )
    return pd.DataFrame(rows)


def write_study(
    folder: Path,
    records: Sequence[Record],
    published: pd.DataFrame | None = None,
    published_runs: pd.DataFrame | None = None,
    curve_paths: Sequence[Path] = (),
) -> dict[str, pd.DataFrame]:
    """Write records with their tables and fits into `folder`, as the workflow does.

    Returns:
        The tables, by name.
    """
    paths = write(records, folder / "records")
    tables = build_tables(paths, published, published_runs=published_runs, curve_paths=curve_paths)
    write_tables(tables, folder / "tables")
    found = fit_curves(tables["curve_points"], draws=20)
    write_tables(fitted_tables(found), folder / "fits")
    write_fit(folder / "fits/fit.json", file_of(found, "curve_points.csv", "0" * 64))
    return tables


def _frame(of: Cell, origin: str, cpu: str) -> dict[str, Any]:
    started = START + timedelta(minutes=of.repeat * 60 + of.nodes)
    return {
        "cell": of,
        "kind": "measured",
        "started_at": started,
        "finished_at": started + timedelta(seconds=50),
        "data": {
            "dataset": of.dataset,
            "origin": origin,
            "sha256": "a" * 64,
            "train_examples": EXAMPLES,
            "test_examples": 10_000,
        },
        "provenance": {
            "commit": "0" * 40,
            "dirty": False,
            "config_sha256": "b" * 64,
            "lock_sha256": "c" * 64,
            "versions": {"tensorflow": "2.21.0", "keras": "3.15.1", "python": "3.11.7"},
            "cpu": cpu,
            "cores": CORES,
            "memory_bytes": 8 * 2**30,
            "kernel": "6.1.0",
            "network": "namespace with loopback only",
            "cpu_limit": "one core per node",
            "command": f"snakemake --cores all --force results/records/{of.id}.json",
        },
    }


def _split(
    parts: dict[str, float], steps: int, launch: float, rng: np.random.Generator
) -> dict[str, Any] | None:
    if steps == 0:
        return None
    times: dict[str, Any] = {
        f"{part}_us": np.round(seconds * launch * 1e6 * rng.lognormal(0, 0.03, steps))
        .astype(int)
        .tolist()
        for part, seconds in parts.items()
    }
    return times | {"idle_barrier_us": 240}


def _epochs(of: Cell, per_epoch: int, times: np.ndarray) -> Iterator[dict[str, Any]]:
    """Yield one entry per epoch, or a single one for a cell that measures steps."""
    size = per_epoch if of.extent.epochs else len(times)
    pace = 0.02 * np.log2(of.global_batch / 32)
    for epoch, start in enumerate(range(0, len(times), size), 1):
        yield {
            "epoch": epoch,
            "steps": size,
            "seconds": float(times[start : start + size].sum()),
            "loss": float(0.7 / epoch**0.5 + pace),
            "accuracy": float(0.93 - 0.16 / epoch - pace),
        }

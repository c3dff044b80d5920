"""Read the published numbers of the reproduced studies, in data/published."""

import sys
from functools import cache
from importlib.resources import files
from pathlib import Path

import pandas as pd

from nodewise.results.columns import COLUMNS, PUBLISHED
from nodewise.results.table_files import typed

_FOLDERS = (  # of a clone, or of an installed package
    Path(str(files("nodewise"))) / "../../data/published",
    Path(sys.prefix) / "share/nodewise/published",
)
FOLDER = next((folder.resolve() for folder in _FOLDERS if folder.is_dir()), _FOLDERS[-1])
BYTES_PER_WEIGHT = 4  # float32
PUBLISHED_STRATEGY = "multi_worker_mirrored"  # the strategy of the table `published`
TRAINING_EXAMPLES = 60_000  # of both MNIST and Fashion-MNIST

RATE = "throughput_samples_per_s"
TRAINING = ("model", "precision", "device", "batch_per_device")
RUNS = {
    "asu": "asu_mirrored_mnist",
    "strategies": "fashion_mlp_strategies",
    "horovod": "horovod_mnist_gpus",
}
"""The tables of the studies that are not a grid of batches and nodes."""


@cache
def forecast_cases() -> pd.DataFrame:
    """Return the published throughputs of one device or node and of many; see the README there."""
    return pd.read_csv(FOLDER / "forecast/cases.csv")


def scaling_runs() -> pd.DataFrame:
    """Return the rows of `forecast_cases`, and of scaling curves over known links in its columns.

    `run` names the measurements that belong together; a case may have several.
    """
    cases = forecast_cases()
    cases = cases.assign(run=(cases["n_devices"] == cases["baseline_devices"]).cumsum())
    rows = read("curves/scaling_curves").query("quantity == 'throughput'")
    rows = rows[rows["interconnect_in_node"].str.startswith("NVLink") & (rows["device"] == "V100")]
    rate = rows["interconnect_between"].str.extract(r"InfiniBand (\d+)Gb/s", expand=False)
    curves = rows.assign(
        run=rows["curve"],
        precision=rows["curve"].str.extract("(fp32|amp)", expand=False),
        within_kind="nvlink2",  # of V100
        between_gbit=rate.astype(float),
        transport="rdma",
        exchange="nccl",
        source=rows["source_url"],
        **{RATE: rows["value"]},
    )
    return pd.concat([cases, curves])


def read(name: str) -> pd.DataFrame:
    """Return a table of data/published as printed; the README there explains its columns."""
    return pd.read_csv(FOLDER / f"{name}.csv")


def ntua() -> pd.DataFrame:
    """Return the table `published`: Table II of the NTUA study, joined with its Table I.

    `steps` is epochs × whole steps per epoch, floor(examples / (nodes × batch)). `step_time_s` is
    training time over steps. `payload_bytes` is the size of the gradient, 4 bytes per trainable
    weight.
    """
    rows = read("ntua_table2").merge(read("ntua_table1"), on=["model", "dataset"])
    global_batch = rows["nodes"] * rows["batch_per_worker"]
    steps = rows["training_examples"] // global_batch * rows["epochs"]
    rows = rows.assign(
        study="ntua",
        steps=steps,
        step_time_s=rows["training_time_s"] / steps,
        payload_bytes=BYTES_PER_WEIGHT * rows["trainable_weights"],
        kind="published",
    )
    return typed(rows, PUBLISHED)


def runs() -> pd.DataFrame:
    """Return the table `published_runs`: the trainings of the other studies.

    `examples_per_s` is training examples × epochs over training time. If a study prints only times
    of epochs, in whole seconds, it follows from the time of a step. `speedup` is relative to the
    study's own training on one node or device.
    """
    tables = [read(name).assign(study=study) for study, name in RUNS.items()]
    rows = pd.concat(tables, ignore_index=True)
    by_steps = rows["nodes"] * rows["batch_per_worker"] / rows["step_time_s"]
    rate = (TRAINING_EXAMPLES * rows["epochs"] / rows["training_time_s"]).fillna(by_steps)
    alone = rate.where(rows["nodes"] == 1).groupby(rows["study"]).transform("first")
    rows = rows.assign(
        training_time_s=rows["training_time_s"].fillna(rows["epoch_time_s"] * rows["epochs"]),
        examples_per_s=rate,
        speedup=rate / alone,
        kind="published",
    )
    return typed(rows, COLUMNS["published_runs"])

"""Read the published numbers of the reproduced studies, in data/published."""

import sys
from functools import cache
from importlib.resources import files
from pathlib import Path

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.results.columns import PUBLISHED, PUBLISHED_RUNS
from nodewise.results.table_files import read_csv, typed

_FOLDERS = (  # of a clone, or of an installed package
    Path(str(files("nodewise"))) / "../../data/published",
    Path(sys.prefix) / "share/nodewise/published",
)
FOLDER = next((folder.resolve() for folder in _FOLDERS if folder.is_dir()), _FOLDERS[-1])
BYTES_PER_WEIGHT = 4  # float32
TRAINING_EXAMPLES = 60_000  # of both MNIST and Fashion-MNIST

RUNS = {
    "asu": "asu_mirrored_mnist",
    "strategies": "fashion_mlp_strategies",
    "horovod": "horovod_mnist_gpus",
}
"""The tables of the studies that are not a grid of batches and nodes."""
_RUN = {  # a training; what the study does not print is empty
    **dict.fromkeys(("model", "dataset", "strategy", "printed_name"), "str"),
    "nodes": "int64",
    "batch_per_worker": "Int64",
    "epochs": "int64",
    **dict.fromkeys(("step_time_s", "epoch_time_s", "training_time_s"), "float64"),
    **dict.fromkeys(("training_accuracy", "test_accuracy"), "float64"),
}
TABLES = {
    "ntua_table1": {  # one model with its data set
        **dict.fromkeys(("model", "dataset", "initial_batch_sizes", "input_shape"), "str"),
        **dict.fromkeys(("epochs", "trainable_weights", "total_weights"), "int64"),
        "training_examples": "int64",
    },
    "ntua_table2": {  # one training, with its printed labels
        **dict.fromkeys(("model", "dataset", "printed_dataset"), "str"),
        **dict.fromkeys(("batch_per_worker", "nodes", "printed_batch"), "int64"),
        **dict.fromkeys(("training_time_s", "training_accuracy"), "float64"),
    },
    # a prediction; `time_saved` is a share of the time on one node
    "ntua_figure28": {"claim": "str", "nodes": "int64", "time_saved": "float64"},
    **dict.fromkeys(RUNS.values(), _RUN),
}
"""The columns of each table and their types."""


@cache
def forecast_cases() -> pd.DataFrame:
    """Return the published throughputs of one device or node and of many; see the README there."""
    return pd.read_csv(FOLDER / "forecast/cases.csv")


def read(name: str, folder: Path = FOLDER) -> pd.DataFrame:
    """Return one of `TABLES` as printed.

    Raises:
        UserError: the table is missing or unreadable, lacks a column, or has a number that is not
            above 0.
    """
    path = folder / f"{name}.csv"
    table = read_csv(path, TABLES[name])
    for column in table.select_dtypes("number"):
        for row in table.index[table[column].le(0).fillna(False)]:
            raise UserError(f"{path}:{row + 2}: {column}: must be more than 0")
    return table


def ntua(folder: Path = FOLDER) -> pd.DataFrame:
    """Return the table `published`: Table II of the NTUA study, joined with its Table I.

    `steps` is epochs × whole steps per epoch, floor(examples / (nodes × batch)). `step_time_s` is
    training time over steps. `payload_bytes` is the size of the gradient, 4 bytes per trainable
    weight.

    Raises:
        UserError: a table is wrong, a training appears twice, or its model or batch is not in
            Table I.
    """
    models, trained = read("ntua_table1", folder), read("ntua_table2", folder)
    models["batch_per_worker"] = models["initial_batch_sizes"].str.split(";")
    models = models.explode("batch_per_worker").astype({"batch_per_worker": "int64"})
    key = ["model", "dataset", "batch_per_worker"]
    rows = trained.merge(models.drop_duplicates(key), "left", key)
    for wrong, problem in (
        (rows["epochs"].isna(), "ntua_table1.csv has no such model, data set and batch"),
        (rows.duplicated([*key, "nodes"]), "appears twice"),
    ):
        for row in rows.index[wrong]:
            raise UserError(f"{folder / 'ntua_table2.csv'}:{row + 2}: {problem}")
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


def runs(folder: Path = FOLDER) -> pd.DataFrame:
    """Return the table `published_runs`: the trainings of the other studies.

    `examples_per_s` is training examples × epochs over training time. If a study prints only times
    of epochs, in whole seconds, it follows from the time of a step. `speedup` is relative to the
    study's own training on one node or device.

    Raises:
        UserError: a table is wrong.
    """
    tables = [read(name, folder).assign(study=study) for study, name in RUNS.items()]
    rows = pd.concat(tables, ignore_index=True)
    by_steps = rows["nodes"] * rows["batch_per_worker"].astype("float64") / rows["step_time_s"]
    rate = (TRAINING_EXAMPLES * rows["epochs"] / rows["training_time_s"]).fillna(by_steps)
    alone = rate.where(rows["nodes"] == 1).groupby(rows["study"]).transform("first")
    rows = rows.assign(
        training_time_s=rows["training_time_s"].fillna(rows["epoch_time_s"] * rows["epochs"]),
        examples_per_s=rate,
        speedup=rate / alone,
        kind="published",
    )
    return typed(rows, PUBLISHED_RUNS)

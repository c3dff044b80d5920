"""Read the published numbers of the reproduced studies, in data/published."""

import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.core.units import counted
from nodewise.results.columns import PUBLISHED, PUBLISHED_RUNS, SINGLE
from nodewise.results.importers import IMPORTERS
from nodewise.results.table_files import read_csv, typed

_FOLDERS = (  # of a clone, or of an installed package
    Path(str(files("nodewise"))) / "../../data/published",
    Path(sys.prefix) / "share/nodewise/published",
)
FOLDER = next((folder.resolve() for folder in _FOLDERS if folder.is_dir()), _FOLDERS[-1])
BYTES_PER_WEIGHT = 4  # float32
TRAINING_EXAMPLES = 60_000  # of both MNIST and Fashion-MNIST

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
    "asu_mirrored_mnist": {  # a training on one or two GPUs of one machine
        "strategy": "str",
        **dict.fromkeys(("devices", "batch_per_worker", "epochs", "steps_per_epoch"), "int64"),
        **dict.fromkeys(("step_time_ms", "total_time_s", "final_training_accuracy"), "float64"),
    },
    "fashion_mlp_strategies": {  # a training of the same network with one of four strategies
        **dict.fromkeys(("strategy", "printed_name"), "str"),
        "batch_per_worker": "Int64",
        "epochs": "int64",
        **dict.fromkeys(("training_time_s", "training_accuracy", "test_accuracy"), "float64"),
    },
    "horovod_mnist_gpus": {  # a training on one, two or four GPUs
        "strategy": "str",
        **dict.fromkeys(("gpus", "batch_per_worker", "epochs"), "int64"),
        **dict.fromkeys(("epoch_time_s", "step_time_ms", "accuracy"), "float64"),
    },
}
"""The columns of each table and their types."""


def read(name: str, folder: Path = FOLDER) -> pd.DataFrame:
    """Return one of `TABLES` as printed.

    Raises:
        UserError: the table is missing or unreadable, lacks a column, or has a number that is not
            above 0.
    """
    path = folder / f"{name}.csv"
    table = read_csv(path, TABLES[name])
    for column in table.select_dtypes("number"):
        for row in table.index[table[column] <= 0]:
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
    """Return the table `published_runs`: the trainings of the ASU, strategies and Horovod studies.

    `examples_per_s` is training examples × epochs over training time. If a study prints epoch
    times, training time is epoch time × epochs. `speedup` is relative to the study's own training
    on one node or device. For the Horovod study, both come from its step times because its epoch
    times are rounded to seconds. The strategies study does not print the number of nodes; `nodes`
    is the smallest number that each strategy needs.

    Raises:
        UserError: a table is wrong.
    """
    horovod = _horovod(folder)
    per_device = horovod["nodes"] / horovod["step_time_s"]
    horovod = horovod.assign(
        examples_per_s=per_device * horovod["batch_per_worker"],
        speedup=per_device / per_device.iloc[0],
    )
    rows = pd.concat([_asu(folder), _strategies(folder), horovod], ignore_index=True)
    alone = rows[rows["nodes"] == 1].set_index("study")["training_time_s"]
    examples = TRAINING_EXAMPLES * rows["epochs"]
    rows = rows.assign(
        examples_per_s=rows["examples_per_s"].fillna(examples / rows["training_time_s"]),
        speedup=rows["speedup"].fillna(rows["study"].map(alone) / rows["training_time_s"]),
        kind="published",
    )
    return typed(rows, PUBLISHED_RUNS)


def _asu(folder: Path) -> pd.DataFrame:
    rows = read("asu_mirrored_mnist", folder)
    return rows.assign(
        study="asu",
        **_MNIST,
        printed_name=[counted(number, "GPU") for number in rows["devices"]],
        nodes=rows["devices"],
        step_time_s=rows["step_time_ms"] / 1000,
        training_time_s=rows["total_time_s"],
        training_accuracy=rows["final_training_accuracy"],
    )


def _strategies(folder: Path) -> pd.DataFrame:
    rows = read("fashion_mlp_strategies", folder)
    nodes = (rows["strategy"] == SINGLE).map({True: 1, False: 2})
    return rows.assign(
        study="strategies", model="fashion_mlp", dataset="fashion_mnist", nodes=nodes
    )


def _horovod(folder: Path) -> pd.DataFrame:
    rows = read("horovod_mnist_gpus", folder)
    return rows.assign(
        study="horovod",
        **_MNIST,
        printed_name=[counted(number, "GPU") for number in rows["gpus"]],
        nodes=rows["gpus"],
        step_time_s=rows["step_time_ms"] / 1000,
        training_time_s=rows["epoch_time_s"] * rows["epochs"],
        training_accuracy=rows["accuracy"],
    )


_MNIST = {"model": "mnist_cnn", "dataset": "mnist"}
_CURVES: dict[str, Callable[[Path], pd.DataFrame]] = {
    "ntua_table2": ntua,
    "asu_mirrored_mnist": _asu,
    "horovod_mnist_gpus": _horovod,
}


class PublishedTable:
    """Importer of the tables in `data/published` that have times on several node counts."""

    def sniff(self, path: Path) -> bool:
        """Return whether the file has the name of such a table."""
        return path.suffix == ".csv" and path.stem in _CURVES

    def read(self, path: Path) -> pd.DataFrame:
        """Return the rows of the table's curves.

        Raises:
            UserError: a row is wrong, or the file is not one of these tables.
        """
        if not self.sniff(path):
            raise UserError(f"{path}: must be named one of {', '.join(_CURVES)}, with .csv")
        rows = _CURVES[path.stem](path.parent)
        columns = ["nodes", "batch_per_worker", "step_time_s"]
        if path.stem != "ntua_table2":
            return rows[columns].assign(curve=rows["model"] + " (" + rows["study"] + ")")
        return rows[[*columns, "payload_bytes"]].assign(
            curve=rows["model"] + " (" + rows["dataset"] + ")", cluster="ntua", collective="ring"
        )


IMPORTERS.add("published", PublishedTable())

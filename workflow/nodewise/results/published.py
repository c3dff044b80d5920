"""Read the published numbers of the reproduced studies, in data/published."""

from functools import cache

import pandas as pd

from nodewise.results import studies
from nodewise.results.columns import COLUMNS
from nodewise.results.table_files import typed

BYTES_PER_WEIGHT = 4  # float32
PUBLISHED_STRATEGY = "multi_worker_mirrored"  # the strategy of the table `published`

RATE = "throughput_samples_per_s"
TRAINING = ("model", "precision", "device", "batch_per_device")


@cache
def published_cases() -> pd.DataFrame:
    """Return the published throughputs of one device or node and of many; see the README there."""
    return read("forecast/cases")


def scaling_runs() -> pd.DataFrame:
    """Return the rows of `published_cases`, and of scaling curves over known links in its columns.

    `run` names the measurements that belong together; a case may have several.
    """
    cases = published_cases()
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
    return pd.read_csv(studies.FOLDER / f"{name}.csv")


def of_studies(table: str) -> pd.DataFrame:
    """Return the files `table` of all studies that have one, with the column `study`."""
    known = [
        name for name in studies.studies() if (studies.FOLDER / name / f"{table}.csv").is_file()
    ]
    tables = [read(f"{name}/{table}").assign(study=name) for name in known]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def points() -> pd.DataFrame:
    """Return the table `published`: training times by batch and nodes, joined with their models.

    `steps` is epochs × whole steps per epoch, floor(examples / (nodes × batch)). `step_time_s` is
    training time over steps. `payload_bytes` is the size of the gradient, 4 bytes per trainable
    weight.
    """
    rows = of_studies("points").merge(of_studies("models"), on=["study", "model", "dataset"])
    global_batch = rows["nodes"] * rows["batch_per_worker"]
    steps = rows["training_examples"] // global_batch * rows["epochs"]
    rows = rows.assign(
        steps=steps,
        step_time_s=rows["training_time_s"] / steps,
        payload_bytes=BYTES_PER_WEIGHT * rows["trainable_weights"],
        kind="published",
    )
    return typed(rows, COLUMNS["published"])


def runs() -> pd.DataFrame:
    """Return the table `published_runs`: single trainings of the studies.

    `examples_per_s` is training examples × epochs over training time. If a study prints only times
    of epochs, in whole seconds, it follows from the time of a step. `speedup` is relative to the
    study's own training of the model on one node or device.
    """
    rows = of_studies("trainings")
    by_steps = rows["nodes"] * rows["batch_per_worker"] / rows["step_time_s"]
    examples = rows["training_examples"] * rows["epochs"]
    rate = (examples / rows["training_time_s"]).fillna(by_steps)
    one_node, trained = rate.where(rows["nodes"] == 1), [rows["study"], rows["model"]]
    alone = one_node.groupby(trained).transform("first")
    rows = rows.assign(
        training_time_s=rows["training_time_s"].fillna(rows["epoch_time_s"] * rows["epochs"]),
        examples_per_s=rate,
        speedup=rate / alone,
        kind="published",
    )
    return typed(rows, COLUMNS["published_runs"])

"""The columns of every table, with their types; what they are called and mean is in columns.yaml.

A table has its columns whatever the records hold. Times are seconds, sizes are bytes, everywhere.
"""

from functools import cache
from pathlib import Path
from typing import Any

from nodewise.core.schema import read_tree

_FILE = Path(__file__).with_name("columns.yaml")

SINGLE = "single"
"""The strategy without communication: the base of every speed-up."""
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
    "nodes_per_machine": "Int64",
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
    "nodes_per_machine": "Int64",
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
CURVE_POINTS = {
    "curve": "str",
    "link": "str",
    **{name: "str" for name, dtype in AXES.items() if dtype == "str"},
    "machine": "str",
    "kind": "str",
    "data_origin": "str",
    "whole_epochs": "bool",
    "collective": "str",
    "exchange": "str",
    "options": "str",
    "pipeline": "str",
    "batch_per_worker": "float64",
    "nodes": "int64",
    "nodes_per_machine": "float64",
    "payload_bytes": "float64",
    "step_time_s": "float64",
    "compute_s": "float64",
    "wait_s": "float64",
    "communicate_s": "float64",
    "input_s": "float64",
    "bytes_sent_per_step": "float64",
    "noise": "float64",
    "steps_per_epoch": "float64",
    "timed": "bool",
    "fitted": "bool",
    "borrowed": "bool",
    "cell_id": "str",
}
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
    "curve_points": CURVE_POINTS,
    "noise_scale": NOISE_SCALE,
    "published": PUBLISHED,
    "published_runs": PUBLISHED_RUNS,
}



def title_of_column(name: str) -> str:
    """Return the title of a column: its name in words, if it needs no other."""
    return str(_read()["titles"].get(name, name.replace("_", " ").capitalize()))


def explain_table(name: str) -> tuple[str, dict[str, str]]:
    """Return what a row of a table is, and what each of its columns means."""
    table = _read()["tables"][name]
    return table["row"], table["columns"]


@cache
def _read() -> dict[str, Any]:
    read: dict[str, Any] = read_tree(_FILE)
    return read

"""Import scaling curves as publications print them: one value per number of devices.

A row is one value in any unit: a throughput, the time of a step, or the time of a run or an epoch.
A device is a unit that trains a part of the batch; it is a node of a curve here. Devices are in
machines.
"""

import re
from pathlib import Path
from typing import Any

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.results.csv_file import (
    Number,
    given_values,
    read_header,
    read_numbers,
    read_table,
    read_text,
)
from nodewise.results.curves import MOST_NODES, SCALINGS, TEXT_LENGTH
from nodewise.results.importers import IMPORTERS

NEEDED = ("curve", "n_devices", "quantity", "value", "unit")
QUANTITIES = {"throughput": "samples_per_s", "step_time": "step_time_s", "run_time": "epoch_time_s"}
"""The clock of each quantity. A run does the same work on any number of devices."""
COLLECTIVES = {"ring": "ring", "tree": "tree", "ps": "parameter_server"}
"""The law of each known value of the column `algorithm`."""

_SECONDS = {
    **dict.fromkeys(("us", "µs", "usec"), 1e-6),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
}
_STEPS = ("step", "steps", "it", "iter", "iters", "iteration", "iterations", "batch", "batches")
_EXAMPLES = re.compile(r"(im(g|age)|sample|example|seq(uence)?|sentence|record|video|clip)s?")
_PREFIXES = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9}
_NUMBERS = {
    "n_devices": Number(1, MOST_NODES, whole=True),
    "n_nodes": Number(1, MOST_NODES, whole=True),
    "devices_per_node": Number(1, MOST_NODES),
    "batch_per_device": Number(1e-9, 1e15),
    "global_batch": Number(1e-9, 1e15),
    "value": Number(1e-12, 1e18),
}
_MLPERF = re.compile(r"https?://github\.com/mlcommons/[^/]+/tree/[^/]+/([^/]+)")
_REPOSITORY = re.compile(r"https?://github\.com/([^/]+/[^/]+)")
_RENAMED = {"n_devices": "nodes", "n_nodes": "hosts", "devices_per_node": "devices_per_host"}


class ScalingCurves:
    """Importer of CSV files with one value per row.

    Columns are separated by commas, semicolons or tabs, and may be in any order:
        curve: name of the curve.
        n_devices: number of devices, whole.
        quantity: throughput, step_time or run_time.
        value, unit: such as 210 img/s, 31 ms or 2 h.
        n_nodes, devices_per_node: the machines that the devices are in.
        scaling: weak (constant batch per device), strong (constant global batch) or unknown.
        batch_per_device, global_batch: examples per step; one of them is enough.
        algorithm: ring, tree or ps. With any other value, the collective is unknown.
        source_url: address of the publication, from which the publisher is derived.

    Other columns are ignored. Empty values count as not given.
    """

    def sniff(self, path: Path) -> bool:
        """Return whether the first line names all required columns."""
        return set(NEEDED) <= read_header(path)

    def read(self, path: Path) -> pd.DataFrame:
        """Return the rows, with columns of `CURVE_ROWS`.

        Raises:
            UserError: the file is invalid. The message names the column, and the row as an editor
                counts lines.
        """
        header, rows = read_table(path)
        missing = [name for name in NEEDED if name not in header]
        if missing:
            raise UserError(f"{path}: row 1: must name columns {', '.join(NEEDED)}")
        return pd.DataFrame(
            [_read_row(f"{path}: row {number}", header, values) for number, values in rows]
        )


IMPORTERS.add("scaling_curves", ScalingCurves())


def _read_row(location: str, header: list[str], values: list[str]) -> dict[str, Any]:
    given = given_values(location, header, values, NEEDED)
    numbers = read_numbers(location, given, _NUMBERS)
    scaling = given.get("scaling", "unknown")
    for name, value, allowed in (
        ("quantity", given["quantity"], QUANTITIES),
        ("scaling", scaling, SCALINGS),
    ):
        if value not in allowed:
            raise UserError(f"{location}, column {name}: must be one of {', '.join(allowed)}")
    clock, unit_value = parse_unit(given["quantity"], given["unit"])
    row: dict[str, Any] = {
        "location": location,
        "curve": read_text(f"{location}, column curve", given["curve"]),
        "scaling": scaling,
        "unit": read_text(f"{location}, column unit", given["unit"]),
        "unit_value": unit_value,
        "publisher": publisher_of(given.get("source_url", "")),
        clock: numbers["value"] * unit_value,
        **{ours: numbers[theirs] for theirs, ours in _RENAMED.items() if theirs in numbers},
    }
    if "batch_per_device" in numbers:
        row["batch_per_worker"] = numbers["batch_per_device"]
    elif "global_batch" in numbers:
        row["global_batch"] = numbers["global_batch"]
    collective = COLLECTIVES.get(given.get("algorithm", "").lower())
    return row | ({"collective": collective} if collective else {})


def publisher_of(address: str) -> str:
    """Return the publisher: the submitter for MLPerf, owner/repository on GitHub, else the site."""
    for pattern in (_MLPERF, _REPOSITORY):
        if match := pattern.match(address):
            return _printable(match[1].lower())
    return _printable(re.sub(r"^https?://", "", address).partition("/")[0])


def _printable(text: str) -> str:
    return "".join(filter(str.isprintable, text))[:TEXT_LENGTH]


def parse_unit(quantity: str, unit: str) -> tuple[str, float]:
    """Return the clock of a value, and its unit in units of the clock.

    Throughput may be counted in anything, such as tokens or frames: predictions are in the same
    unit, and nothing depends on how many of them an example has.
    """
    clock = QUANTITIES[quantity]
    above, _, below = (part.strip() for part in unit.partition("/"))
    if quantity != "throughput":
        count = re.match(r"[\d.]+(?=\s)", below)
        steps = float(count[0]) if count and quantity == "step_time" else 1.0
        return clock, _SECONDS.get(above, 1.0) / (steps or 1.0)
    if above in _STEPS:
        return "steps_per_s", 1 / _SECONDS.get(below or "s", 1.0)
    prefix = 1.0
    if above[:1] in _PREFIXES and (above[1:2] == " " or _EXAMPLES.fullmatch(above[1:])):
        prefix = _PREFIXES[above[0]]
    return clock, prefix / _SECONDS.get(below or "s", 1.0)

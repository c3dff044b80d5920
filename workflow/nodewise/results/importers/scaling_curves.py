"""Import scaling curves as publications print them: one value per number of devices.

A row is one value in its own unit: a throughput, or the time of a step, a run or an epoch.
A device is a unit that trains a part of the batch; it is a node of a curve here. Devices are in
machines.
"""

import difflib
import re
from collections.abc import Sequence
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
    shown,
)
from nodewise.results.curve_units import QUANTITIES, is_per_device, parse_unit
from nodewise.results.curves import CLOCKS, MOST_NODES, SCALINGS, TEXT_LENGTH, same_batch
from nodewise.results.importers import IMPORTERS

NEEDED = ("curve", "n_devices", "quantity", "value", "unit")
_RECOGNISED = 3  # of the columns above, so that a message can name the missing ones
_CLOSE = 0.7  # similarity from which an unknown column counts as a misspelt one
_TOLD = 3  # doubtful rows that are named
COLLECTIVES = {"ring": "ring", "tree": "tree", "ps": "parameter_server"}
"""The law of each known value of the column `algorithm`."""

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
        quantity: throughput, step_time, run_time or epoch_time.
        value, unit: such as 210 img/s, 180 img/s/GPU (of each device), 31 ms or 2 h.
        n_nodes, devices_per_node: the machines that the devices are in.
        scaling: weak (constant batch per device), strong (constant global batch) or unknown.
        batch_per_device, global_batch: examples per step; one of them is enough.
        algorithm: ring, tree or ps. With any other value, the collective is unknown.
        source_url: address of the publication, from which the publisher is derived.

    Other columns are ignored. Empty values count as not given. A note says which rows contradict
    themselves.
    """

    def sniff(self, path: Path) -> bool:
        """Return whether the first line names the required columns, or most and no other clock."""
        header = read_header(path)
        there = set(NEEDED) & header
        return len(there) == len(NEEDED) or (len(there) >= _RECOGNISED and not set(CLOCKS) & header)

    def read(self, path: Path) -> pd.DataFrame:
        """Return the rows, with columns of `CURVE_ROWS`.

        Raises:
            UserError: the file is invalid. The message names the column, and the row as an editor
                counts lines.
        """
        header, rows = read_table(path)
        _check_header(path, header)
        table = pd.DataFrame(
            [_read_row(f"{path}: row {number}", header, values) for number, values in rows]
        )
        doubts = [text for text in table.pop("doubt") if text]
        more = len(doubts) - _TOLD
        table.attrs["notes"] = [*doubts[:_TOLD], *([f"{more} more such rows"] if more > 0 else [])]
        return table


IMPORTERS.add("scaling_curves", ScalingCurves())


def _check_header(path: Path, header: Sequence[str]) -> None:
    missing = [name for name in NEEDED if name not in header]
    if missing:
        known = {*NEEDED, *_NUMBERS, "scaling", "algorithm", "source_url"}
        unknown = [name for name in header if name not in known]
        close = difflib.get_close_matches(missing[0], unknown, 1, _CLOSE)
        hint = f"; rename {shown(close[0])}" if close else ""
        raise UserError(
            f"{path}: row 1: lacks column {missing[0]}{hint}; must name {', '.join(NEEDED)}"
        )


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
    try:
        clock, unit_value = parse_unit(given["quantity"], given["unit"])
    except ValueError as error:
        raise UserError(f"{location}, column unit: {error}") from None
    per_device = clock == "samples_per_s" and is_per_device(given["unit"])
    doubt = _doubt(numbers)
    if numbers.get("n_nodes", 1) > numbers["n_devices"]:
        del numbers["n_nodes"]
    row: dict[str, Any] = {
        "location": location,
        "curve": read_text(f"{location}, column curve", given["curve"]),
        "scaling": scaling,
        "unit": read_text(f"{location}, column unit", given["unit"]),
        "unit_value": unit_value,
        "publisher": publisher_of(given.get("source_url", "")),
        "doubt": f"{location}: {doubt}" if doubt else "",
        clock: numbers["value"] * unit_value * (numbers["n_devices"] if per_device else 1.0),
        **{ours: numbers[theirs] for theirs, ours in _RENAMED.items() if theirs in numbers},
    }
    if "batch_per_device" in numbers:
        row["batch_per_worker"] = numbers["batch_per_device"]
    elif "global_batch" in numbers:
        row["global_batch"] = numbers["global_batch"]
    collective = COLLECTIVES.get(given.get("algorithm", "").lower())
    return row | ({"collective": collective} if collective else {})


def _doubt(numbers: dict[str, float]) -> str:
    """Return which values of a row contradict each other; empty if none do."""
    devices, nodes = numbers["n_devices"], numbers.get("n_nodes")
    batch, in_all = numbers.get("batch_per_device"), numbers.get("global_batch")
    if batch and in_all and not same_batch(devices * batch, in_all, devices):
        return (
            f"{devices:g} devices × {batch:g} batch_per_device is {devices * batch:.10g}, not "
            f"{in_all:.10g}: global_batch is not used"
        )
    if nodes and nodes > devices:
        return f"{devices:g} devices cannot be in {nodes:g} nodes: n_nodes is not used"
    room = numbers.get("devices_per_node", devices)
    if nodes and devices > nodes * room:
        return f"{devices:g} devices do not fit in {nodes:g} × {room:g}: check devices_per_node"
    return ""


def publisher_of(address: str) -> str:
    """Return the publisher: the submitter for MLPerf, owner/repository on GitHub, else the site."""
    for pattern in (_MLPERF, _REPOSITORY):
        if match := pattern.match(address):
            return _printable(match[1].lower())
    return _printable(re.sub(r"^https?://", "", address).partition("/")[0])


def _printable(text: str) -> str:
    return "".join(filter(str.isprintable, text))[:TEXT_LENGTH]

"""Import scaling curves as publications print them: one value per number of devices.

A row is one value in its own unit: a throughput, or the time of a step, a run or an epoch.
A device is a unit that trains a part of the batch; it is a node of a curve here. Devices are in
machines.
"""

import re
from pathlib import Path
from typing import Any

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.results.csv_file import Number, read_header, read_records
from nodewise.results.curve_units import QUANTITIES, is_per_device, parse_unit
from nodewise.results.curves import CLOCKS, MOST_NODES, SCALINGS, TEXT_LENGTH, same_batch
from nodewise.results.importers import IMPORTERS

NEEDED = ("curve", "n_devices", "quantity", "value", "unit")
_TEXTS = ("curve", "quantity", "unit", "scaling", "algorithm", "source_url")
_RECOGNISED = 3  # of the columns above, so that a message can name the missing ones
_SHOWN = 3  # doubtful rows that are named
COLLECTIVES = {"ring": "ring", "tree": "tree", "ps": "parameter_server"}
"""The law of each known value of the column `algorithm`."""

_BATCH, _NODES = Number(1e-9, 1e15), Number(1, MOST_NODES, whole=True)
_NUMBERS = {
    "n_devices": _NODES,
    "n_nodes": _NODES,
    "devices_per_node": Number(1, MOST_NODES),
    "batch_per_device": _BATCH,
    "global_batch": _BATCH,
    "value": Number(1e-12, 1e18),
}
_RENAMED = {
    "n_devices": "nodes",
    "n_nodes": "hosts",
    "devices_per_node": "devices_per_host",
    "batch_per_device": "batch_per_worker",
}
_MLPERF = re.compile(r"https?://github\.com/mlcommons/[^/]+/tree/[^/]+/([^/]+)")
_REPOSITORY = re.compile(r"https?://github\.com/([^/]+/[^/]+)")


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
        records = read_records(path, NEEDED, _TEXTS, _NUMBERS)
        doubts = [f"{row['location']}: {doubt}" for row in records if (doubt := _doubt(row))]
        table = pd.DataFrame(map(_row, records))
        more = len(doubts) - _SHOWN
        table.attrs["notes"] = doubts[:_SHOWN] + ([f"{more} more such rows"] if more > 0 else [])
        return table


IMPORTERS.add("scaling_curves", ScalingCurves())


def _row(record: dict[str, Any]) -> dict[str, Any]:
    scaling = record.get("scaling", "unknown")
    for name, value, allowed in (
        ("quantity", record["quantity"], QUANTITIES),
        ("scaling", scaling, SCALINGS),
    ):
        if value not in allowed:
            raise UserError(
                f"{record['location']}, column {name}: must be one of {', '.join(allowed)}"
            )
    unit, devices = record["unit"], record["n_devices"]
    try:
        clock, unit_value = parse_unit(record["quantity"], unit)
    except ValueError as error:
        raise UserError(f"{record['location']}, column unit: {error}") from None
    per_device = clock == "samples_per_s" and is_per_device(unit)
    row = {
        "location": record["location"],
        "curve": record["curve"],
        "scaling": scaling,
        "unit": unit,
        "unit_value": unit_value,
        "publisher": publisher_of(record.get("source_url", "")),
        clock: record["value"] * unit_value * (devices if per_device else 1.0),
        "collective": COLLECTIVES.get(record.get("algorithm", "").lower(), ""),
    }
    row |= {ours: record[theirs] for theirs, ours in _RENAMED.items() if theirs in record}
    if row.get("hosts", 1) > devices:
        del row["hosts"]
    if "global_batch" in record and "batch_per_device" not in record:
        row["global_batch"] = record["global_batch"]
    return row


def _doubt(record: dict[str, Any]) -> str:
    """Return which values of a row contradict each other; empty if none do."""
    devices, nodes = record["n_devices"], record.get("n_nodes")
    batch, in_all = record.get("batch_per_device"), record.get("global_batch")
    if batch and in_all and not same_batch(devices * batch, in_all, devices):
        return (
            f"{devices:g} devices × {batch:g} batch_per_device is {devices * batch:.10g}, not "
            f"{in_all:.10g}: global_batch is not used"
        )
    if nodes and nodes > devices:
        return f"{devices:g} devices cannot be in {nodes:g} nodes: n_nodes is not used"
    room = record.get("devices_per_node", devices)
    if nodes and devices > nodes * room:
        return f"{devices:g} devices do not fit in {nodes:g} × {room:g}: check devices_per_node"
    return ""


def publisher_of(address: str) -> str:
    """Return the publisher: the submitter for MLPerf, owner/repository on GitHub, else the site."""
    for site in (_MLPERF, _REPOSITORY):
        if match := site.match(address):
            return _printable(match[1].lower())
    return _printable(re.sub(r"^https?://", "", address).partition("/")[0])


def _printable(text: str) -> str:
    return "".join(filter(str.isprintable, text))[:TEXT_LENGTH]

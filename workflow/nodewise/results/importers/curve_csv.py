"""Import tables of curves (CSV): measurements of users, and values as publications print them."""

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.results.csv_file import parse_number, read_header, read_table
from nodewise.results.curve_units import is_per_device, parse_unit
from nodewise.results.curves import CLOCKS, TEXT_LENGTH, CurveRow
from nodewise.results.importers import IMPORTERS
from nodewise.results.log_format import COLLECTIVES, DECLARED

ALIASES: Mapping[str, str] = DECLARED["aliases"]
"""Columns of published curves, by which a device is a node of the curve."""
_VALUE = ("quantity", "value", "unit")
_OF_MACHINES = ("nodes", "devices_per_host")
_POINT = ["nodes", "batch_per_worker", "global_batch"]
COLUMNS = {*CurveRow.model_fields, *_VALUE, "algorithm", "source_url", "repeat"} - {
    *("unit_value", "publisher", "location", "samples_per_s_per_device")
}
"""All columns that are read."""
_AS_WRITTEN = COLUMNS & set(CurveRow.model_fields)

_CLOSE = 0.8  # similarity from which an unknown column counts as misspelt
_WITHOUT_BATCH = {"samples_per_s", "epoch_time_s", "global_batch"}  # what is known without one


class CurveCsv:
    """Importer of CSV files of curves.

    Columns are those of `curves.CurveRow` and `ALIASES`, in any order, and:
        quantity: throughput, step_time, run_time or epoch_time, in place of a clock.
        value, unit: such as 210 img/s, 180 img/s/GPU (of each device), 31 ms or 2 h.
        algorithm: ring, tree or ps, in place of a collective. With any other, it is unknown.
        source_url: address of the publication, from which the publisher is derived.
        repeat: any text; repeats are recognised without it.

    Beside `nodes`, `devices_per_node` says that each node has several devices. Then the devices are
    the nodes of the curve, and `batch_per_worker` is that of a device. Empty values count as not
    given. Without a column `curve`, all rows are of one curve, which has the file's name. Notes say
    so, and which columns are not used.
    """

    def sniff(self, path: Path) -> bool:
        """Return whether the first line names at least three of the columns."""
        header = {ALIASES.get(name, name) for name in read_header(path)}
        return len(header & COLUMNS) >= 3  # so that a message can name the others

    def read(self, path: Path) -> pd.DataFrame:
        """Return the rows as texts, with columns of `CurveRow`.

        Raises:
            UserError: the file is invalid. The message names the column, and the row as an editor
                counts lines.
        """
        header, lines = read_table(path)
        names = [ALIASES.get(name, name) for name in header]
        of_machines = {"nodes", "devices_per_node"} <= set(header)
        unknown = _check_header(path, names)
        rows = []
        for number, values in lines:
            texts = {name: text for name, text in zip(names, values, strict=False) if text}
            rows.append(_row(texts, f"{path}: row {number}", of_machines=of_machines))
        table = pd.DataFrame(rows)
        notes = [f"columns not used: {', '.join(unknown)}"] if unknown else []
        if "curve" not in table:
            if table.filter(_POINT).duplicated().any() and "repeat" not in names:
                raise UserError(f"{path}: row 1: lacks columns curve, as rows are of equal points")
            table["curve"] = path.stem
            notes.append(f"no column curve: all rows are of one curve, {path.stem}")
        table.attrs["notes"] = notes
        return table


IMPORTERS.add("csv", CurveCsv())


def _check_header(path: Path, names: list[str]) -> list[str]:
    """Return the columns that are not used; refuse a header if one is missing or misspelt."""
    unknown = [name for name in names if name and name not in COLUMNS]
    for name in filter(None, names):
        if names.count(name) > 1:
            raise UserError(f"{path}: row 1: column {name} appears twice, under different names")
    for name in unknown:
        if close := difflib.get_close_matches(name.lower(), COLUMNS - set(names), 1, _CLOSE):
            raise UserError(
                f"{path}: row 1: column {name!r:.40} is not known; is it {close[0]}? "
                "Rename it, with values in the same unit, or remove it"
            )
    needed = ["nodes"]
    if set(_VALUE) & set(names):
        needed += _VALUE
    else:
        needed += [] if _WITHOUT_BATCH & {*names} else ["batch_per_worker"]
        needed += [] if set(CLOCKS) & set(names) else [" or ".join(CLOCKS)]
    if lacking := [name for name in needed if name not in names]:
        hint = "" if COLUMNS & {*names} else "; `nodewise import --pattern` reads any log"
        raise UserError(f"{path}: row 1: lacks columns {', '.join(lacking)}{hint}")
    return unknown


def _row(texts: Mapping[str, str], place: str, *, of_machines: bool) -> dict[str, Any]:
    """Return a row with the texts of the file, and its value in seconds or per second."""
    algorithm = COLLECTIVES.get(texts.get("algorithm", "").lower(), "")
    name, bracket, settings = texts.get("collective", algorithm).lower().partition("(")
    name = re.sub(r"\W+", "_", name.strip())
    law = re.sub(r"_?all_?reduce$", "", name)  # `ring` for `Ring all-reduce` or `ring_allreduce`
    row: dict[str, Any] = {name: text for name, text in texts.items() if name in _AS_WRITTEN}
    row |= {"collective": law + bracket + settings, "location": place}
    row["publisher"] = publisher_of(texts.get("source_url", ""))
    at, unit = "nodes and devices_per_node", texts.get("unit", "")
    try:
        if of_machines:
            machines, inside = (parse_number(texts.get(name, "")) for name in _OF_MACHINES)
            row |= {"hosts": texts["nodes"], "nodes": f"{machines * inside:.12g}"}
        if set(_VALUE) & set(texts):
            at = "value and unit"
            clock, unit_value = parse_unit(texts.get("quantity", ""), unit)
            clock += "_per_device" if clock == "samples_per_s" and is_per_device(unit) else ""
            value = parse_number(texts.get("value", "")) * unit_value
            row |= {"unit_value": unit_value, clock: value}
    except ValueError as error:
        raise UserError(f"{place}, {at}: {error}") from None
    return row


def publisher_of(address: str) -> str:
    """Return the publisher: the submitter for MLPerf, owner/repository on GitHub, else the site."""
    name = re.sub(DECLARED["publisher"], r"\1\2\3", address).lower()
    return "".join(filter(str.isprintable, name))[:TEXT_LENGTH]

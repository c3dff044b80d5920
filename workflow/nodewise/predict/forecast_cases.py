"""Forecasts of a table of cases: the batch interface of `nodewise forecast`.

Each row states one machine, one training and one measured throughput, and asks for another number
of devices. The columns are those of `data/published/forecast/cases.csv`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nodewise.core.errors import UserError
from nodewise.predict.cluster_steps import Cluster, Training, forecast_throughputs
from nodewise.predict.fit import interval_of
from nodewise.results.csv_file import Number, read_table

BYTES_EACH: Mapping[str, tuple[float, ...]] = {
    **dict.fromkeys(("fp32", "tf32", "float32"), (4.0,)),
    **dict.fromkeys(("fp16", "bf16", "amp", "float16", "half", "mixed"), (2.0, 4.0)),
}
"""Bytes in which a gradient may travel. In mixed precision, software differs."""

TRAFFIC: Mapping[str, float] = {
    **dict.fromkeys(("", "ring", "nccl", "mpi", "all-reduce", "unknown"), 1.0),
    **dict.fromkeys(("parameter_server", "parameter server", "byteps"), 1.0),
    **dict.fromkeys(("fsdp", "zero3"), 1.5),
}
"""Bytes relative to a ring all-reduce. As many servers as nodes send and receive as many bytes as a
ring. FSDP gathers the parameters as well."""

_NEEDED = ("parameters", "devices_per_node", "baseline_devices", "throughput_samples_per_s")
_MOST = {"parameters": 1e15, "devices_per_node": 1e5, "baseline_devices": 1e5, "n_devices": 1e5}
_COUNTS = ("devices_per_node", "baseline_devices", "n_devices")


def bytes_each(precision: str) -> tuple[float, ...]:
    """Return the bytes in which gradients may travel, for a text such as `fp16/amp`; default 4.

    Raises:
        UserError: the text names no precision that is known.
    """
    if not precision:
        return BYTES_EACH["fp32"]
    for name, each in BYTES_EACH.items():
        if name in precision.lower():
            return each
    raise UserError(f"precision {precision[:40]}: must be one of {', '.join(BYTES_EACH)}")


def cluster_of(row: Mapping[str, str]) -> Cluster:
    """Return the cluster that a row describes. Links that are not stated may be any.

    Raises:
        UserError: a link or a number is not known.
    """
    per_node = int(_number(row, "devices_per_node"))
    kind, between = row.get("within_kind", "").removeprefix("one"), None  # `one`: of one device
    if row.get("between_gbit"):
        transport = row.get("transport", "").lower()
        if transport not in ("", "tcp", "rdma", "efa"):
            raise UserError(f"transport {transport[:40]}: must be tcp, rdma, efa or empty")
        rate = _number(row, "between_gbit")
        between = f"{rate:f}gbit" + (f"-{transport}" if transport else "")
    return Cluster.of(per_node, kind, between, ("within_kind", "between_gbit"))


def training_of(row: Mapping[str, str]) -> Training:
    """Return the training that a row describes.

    Raises:
        UserError: a number or the precision is not known.
    """
    batch = _number(row, "batch_per_device") if row.get("batch_per_device") else None
    exchange = row.get("exchange", "")
    if exchange.lower() not in TRAFFIC:
        raise UserError(
            f"exchange {exchange[:40]}: must be one of {', '.join(filter(None, TRAFFIC))}"
        )
    traffic = TRAFFIC[exchange.lower()]
    each = bytes_each(row.get("precision", ""))
    return Training(_number(row, "parameters"), each, batch, traffic)


def read_cases(path: Path) -> list[dict[str, str]]:
    """Read a CSV file of cases as text.

    Raises:
        UserError: the file cannot be read or lacks a column.
    """
    header, rows = read_table(path)
    missing = [name for name in (*_NEEDED, "n_devices") if name not in header]
    if missing:
        raise UserError(f"{path}: lacks the columns {', '.join(missing)}")
    return [dict(zip(header, values, strict=False)) for _, values in rows]


def forecast_cases(rows: list[dict[str, str]]) -> Iterator[dict[str, Any]]:
    """Yield each row with `value`, `low` and `high` in examples per second, or with `error`."""
    for row in rows:
        asked = {name: text for name, text in row.items() if name not in ("value", "low", "high")}
        try:
            value, low, high = _answer(row)
        except UserError as error:
            yield asked | {"error": str(error)}
        else:
            yield asked | {"value": value, "low": low, "high": high}


def _answer(row: Mapping[str, str]) -> tuple[float, float, float]:
    first, asked = (int(_number(row, name)) for name in ("baseline_devices", "n_devices"))
    measured = {first: _number(row, "throughput_samples_per_s")}
    found = forecast_throughputs(cluster_of(row), training_of(row), measured, [asked])[:, 0]
    low, high = interval_of(found[1:])
    return float(found[0]), float(low), float(high)


def _number(row: Mapping[str, str], name: str) -> float:
    """Return the number in a column.

    Raises:
        UserError: the column is empty or not a number above 0 that is possible.
    """
    count = name in _COUNTS
    allowed = Number(1 if count else 1e-12, _MOST.get(name, 1e18), whole=count)
    try:
        return allowed.read(row.get(name, ""))
    except ValueError as error:
        raise UserError(f"{name}: {error}") from None

"""Forecasts of a table of cases: the batch interface of `nodewise forecast`."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from nodewise.core.errors import UserError
from nodewise.core.schema import first_error
from nodewise.predict.cluster_steps import Cluster, Training, forecast_throughputs
from nodewise.predict.fit import interval_of
from nodewise.predict.forecast import MOST_DEVICES, cluster_of, with_options
from nodewise.predict.published_convergence import law_of
from nodewise.results.csv_file import read_table

Amount = Annotated[float, Field(gt=0, le=1e18)]
Count = Annotated[int, Field(ge=1, le=MOST_DEVICES)]


class Case(BaseModel):
    """A machine, a training, a measured throughput, and the number of devices that is asked.

    The columns are those of `data/published/forecast/cases.csv`; and `converges_like`, a published
    benchmark, with the examples to the target at the global batch of the measured point, if known,
    and the global batch that is asked.
    """

    parameters: Amount
    precision: str | None = None
    batch_per_device: Amount | None = None
    devices_per_node: Count
    within_kind: str | None = None
    between_gbit: Amount | None = None
    transport: str = ""
    exchange: str | None = None
    baseline_devices: Count
    throughput_samples_per_s: Amount
    n_devices: Count
    converges_like: str | None = None
    samples_to_target: Amount | None = None
    global_batch: Amount | None = None
    global_batch_asked: Amount | None = None

    @property
    def batch(self) -> float | None:
        """Examples per device and step of the measured point."""
        known = self.global_batch and self.global_batch / self.baseline_devices
        return self.batch_per_device or known

    def answer(self) -> dict[str, float]:
        """Return the throughput, and the examples and minutes to the target if one is stated.

        Raises:
            UserError: a name is not known, or something is missing.
        """
        cluster, training = self.setup()
        asked, relative = self.global_batch_asked, 1.0
        if asked is not None:
            if self.batch is None:
                raise UserError("global_batch: missing beside global_batch_asked")
            relative = asked / self.n_devices / self.batch
        rates = forecast_throughputs(cluster, training, [self.n_devices], batches=[relative])[:, 0]
        values, found = {"value": rates}, dict[str, float]()
        counted = self.global_batch or 0.0, self.samples_to_target or 0.0
        counts = (counted,) if all(counted) else ()
        if self.converges_like and asked and (law := law_of(self.converges_like, counts)):
            samples = law.examples([asked], len(rates) - 1)[:, 0]
            values |= {"samples": samples, "minutes": samples / rates / 60}
        for name, drawn in values.items():
            start = "" if name == "value" else f"{name}_"
            low, high = interval_of(drawn[1:]).tolist()
            found |= {name: float(drawn[0]), f"{start}low": low, f"{start}high": high}
        return found

    def setup(self) -> tuple[Cluster, Training]:
        """Return the cluster, and the training with the measured point.

        Raises:
            UserError: a name is not known.
        """
        rate = f"{self.between_gbit:.9g}gbit-{self.transport}" if self.between_gbit else ""
        cluster = cluster_of(self.devices_per_node, self.within_kind, rate.removesuffix("-"))
        measured = {self.baseline_devices: self.throughput_samples_per_s}
        training = Training(self.parameters, batch=self.batch, measured=measured)
        return cluster, with_options(training, precision=self.precision, exchange=self.exchange)


def read_cases(path: Path) -> list[dict[str, str]]:
    """Read a CSV file of cases as text.

    Raises:
        UserError: the file cannot be read or lacks a column.
    """
    header, rows = read_table(path)
    needed = {name for name, field in Case.model_fields.items() if field.is_required()}
    if missing := sorted(needed - {*header}):
        raise UserError(f"{path}: lacks the columns {', '.join(missing)}")
    return [dict(zip(header, values, strict=False)) for _, values in rows]


def case_of(row: Mapping[str, str]) -> Case:
    """Return the case of a row; empty texts are not stated.

    Raises:
        ValidationError: a number is not allowed.
    """
    return Case.model_validate({name: text for name, text in row.items() if text})


def forecast_cases(rows: list[dict[str, str]]) -> Iterator[dict[str, Any]]:
    """Yield each row with `value`, `low` and `high` in examples per second, or with `error`.

    Rows that state a target also have `samples` and `minutes` to it, with `_low` and `_high`.
    """
    for row in rows:
        asked = {name: text for name, text in row.items() if name not in ("value", "low", "high")}
        try:
            yield asked | case_of(row).answer()
        except ValidationError as error:
            yield asked | {"error": first_error(error)}
        except UserError as error:
            yield asked | {"error": str(error).removeprefix("--")}

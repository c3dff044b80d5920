"""Numbers as people post them: `120ms`, `152 images/s/device`, `5.1 steps/s`, `910 s/epoch`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nodewise.core.errors import UserError
from nodewise.core.units import counted, write_plain
from nodewise.predict.forecast import Given, given_by_file
from nodewise.results.curve_units import is_per_device, parse_unit
from nodewise.results.curves import CLOCKS, MOST_NODES, Clock

UNITS: dict[Clock, str] = {
    "step_time_s": "s per step",
    "epoch_time_s": "s per epoch",
    "samples_per_s": "examples/s",
    "steps_per_s": "steps/s",
}
_NUMBER = re.compile(r"\s*(\d[\d,]*\.?\d*(?:[eE][+-]?\d+)?|\.\d+)\s*(\D.*?)\s*")
_TIME = re.compile(r"(ns|us|µs|ms|msecs?|s|secs?|seconds?|m|mins?|minutes?|h|hours?|days?)\b.*")
_MOST = 1e15


@dataclass(frozen=True)
class Posted:
    """A number measured on some devices, in seconds or per second.

    A throughput is that of all devices together.
    """

    devices: int
    clock: Clock
    value: float

    def __str__(self) -> str:
        """Return what was read into the number."""
        together = " together" if self.clock == "samples_per_s" and self.devices > 1 else ""
        value = f"{write_plain(self.value)} {UNITS[self.clock]}"
        return f"{value} on {counted(self.devices, 'device')}{together}"

    @property
    def rises(self) -> bool:
        """Whether a larger value is better."""
        return self.clock in ("samples_per_s", "steps_per_s")

    @property
    def counts_steps(self) -> bool:
        """Whether steps were counted or timed, not examples or epochs."""
        return self.clock in ("step_time_s", "steps_per_s")

    def like(self, other: "Posted") -> "Posted":
        """Return the number in the quantity of another one.

        Raises:
            UserError: the quantities differ, and not both count steps.
        """
        if self.clock == other.clock:
            return self
        if not (self.counts_steps and other.counts_steps):
            raise UserError(f"{other}, but {self}: must be of the same quantity")
        return replace(self, clock=other.clock, value=1 / self.value)

    def step_s(self, batch: float) -> float:
        """Return the seconds of a step; of an epoch of one example if epochs were timed."""
        if self.counts_steps:
            return 1 / self.value if self.rises else self.value
        examples = self.devices * batch
        return examples / self.value if self.rises else examples * self.value


def read_number(option: str, text: str, devices: int) -> Posted:
    """Read a number with its unit.

    Raises:
        UserError: the text has no number above 0, or no unit that is known.
    """
    found = _NUMBER.fullmatch(text)
    value = float(found[1].replace(",", "")) if found else 0.0
    if found is None or not 1 / _MOST < value < _MOST:
        allowed = "120ms, 0.12 s/step, 608 images/s, 152 images/s/device, 5.1 steps/s, 910 s/epoch"
        raise UserError(f"{option} {text[:60]}: must be a number with its unit, such as {allowed}")
    unit = found[2]
    epoch = re.search("epoch|run", unit.lower())
    quantity = ("epoch_time" if epoch else "step_time") if _TIME.match(unit) else "throughput"
    try:
        name, size = parse_unit(quantity, unit)
    except ValueError as error:
        raise UserError(f"{option} {text[:60]}: {error}") from None
    clock = next(one for one in CLOCKS if one == name)
    each = clock == "samples_per_s" and is_per_device(unit)
    return Posted(devices, clock, value * size * (devices if each else 1))


def read_numbers(
    one: str | None,
    one_devices: int,
    many: str | None,
    devices: int | None,
    others: Sequence[str],
) -> tuple[Posted, ...]:
    """Read the numbers of few and many devices, and others such as `2=95ms`, in this quantity.

    Raises:
        UserError: a number is missing or not allowed.
    """
    if one is None or many is None or devices is None:
        raise UserError("give --one, --many and --devices, or a file with several numbers")
    if not 1 <= one_devices <= devices <= MOST_NODES:
        limits = f"--one-devices, {one_devices}, to {MOST_NODES:,}"
        raise UserError(f"--devices {devices}: must be from {limits}")
    found = [read_number("--one", one, one_devices)]
    for text in others:
        count, _, value = text.partition("=")
        if not count.isdigit() or not one_devices < int(count) < devices:
            raise UserError(f"--at {text[:60]}: must be devices=value, between --one and --many")
        found.append(read_number("--at", value, int(count)))
    found.sort(key=lambda posted: posted.devices)
    found.append(read_number("--many", many, devices))
    return tuple(posted.like(found[0]) for posted in found)


def read_files(paths: Sequence[Path]) -> tuple[tuple[Posted, ...], Given]:
    """Return the throughputs of records, tables and logs of one training, and what else they say.

    Raises:
        UserError: a file cannot be read, batches differ, or there is one number of devices.
    """
    givens = [given_by_file(path) for path in paths]
    throughputs = {count: value for given in givens for count, value in given.throughputs.items()}
    if len(throughputs) == 1 or len({given.batch for given in givens}) > 1:
        raise UserError(f"{paths[0]}: needs two numbers of devices with the same batch per device")
    posted = (Posted(count, "samples_per_s", throughputs[count]) for count in sorted(throughputs))
    return tuple(posted), givens[0]

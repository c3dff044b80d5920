"""Numbers as people post them: `120ms`, `152 images/s/device`, `5.1 steps/s`, `910 s/epoch`."""

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from nodewise.core.errors import UserError
from nodewise.core.units import counted, write_plain
from nodewise.results.curve_units import SECONDS, is_per_device, parse_unit
from nodewise.results.curves import MOST_NODES

UNITS = {"step_time_s": "s per step", "epoch_time_s": "s per epoch"}
UNITS |= {"samples_per_s": "examples/s", "tokens_per_s": "tokens/s", "steps_per_s": "steps/s"}
_NUMBER = re.compile(
    r"\s*((?:[1-9]\d{,2}(?:,\d{3})+|\d+)\.?\d*(?:[eE][+-]?\d+)?|\.\d+)\s*([^\s\d.,].*?)\s*"
)
_RATE = re.compile(r"/|\bper\b|p[sm]$")  # other units are of times
_PARTS = re.compile("[kmgb]? ?(tok|word|wp[sm]|char)")  # of an example, whose number is unknown
_MOST = 1e15


class Posted(NamedTuple):
    """A number measured on some devices: seconds, or examples or tokens per second of all of them.

    Its `clock` is a key of `UNITS`.
    """

    devices: int
    clock: str
    value: float

    def __str__(self) -> str:
        """Return what was read into the number."""
        together = " together" if self.rises and self.devices > 1 else ""
        value = f"{write_plain(self.value)} {UNITS[self.clock]}"
        return f"{value} on {counted(self.devices, 'device')}{together}"

    @property
    def rises(self) -> bool:
        """Whether a larger value is better."""
        return self.clock.endswith("_per_s")

    @property
    def times_steps(self) -> bool:
        """Whether steps were timed, not examples or epochs."""
        return self.clock == "step_time_s"


def read_number(option: str, text: str, devices: int, unit: str = "") -> Posted:
    """Read a number with its unit; one without has the `unit` if that is given.

    Raises:
        UserError: the text has no number above 0, or no unit that is known.
    """
    with suppress(ValueError):
        text = f"{float(text):.12g} {unit}"
    found = _NUMBER.fullmatch(text)
    number, unit = (float(found[1].replace(",", "")), found[2]) if found else (0.0, "")
    whole = re.search("epoch|run", unit.lower()) or SECONDS.get(unit, 0) > 1  # no step takes 2 min
    time = "epoch_time" if whole else "step_time"
    for quantity in ("throughput", time) if _RATE.search(unit) else (time,):
        with suppress(ValueError):
            clock, size = parse_unit(quantity, unit)
            value = number * size * (devices if is_per_device(unit) else 1)
            if 1 / _MOST < value < _MOST:
                if clock == "steps_per_s":
                    return Posted(devices, "step_time_s", 1 / value)
                parts = quantity == "throughput" and _PARTS.match(unit.lower())
                return Posted(devices, "tokens_per_s" if parts else clock, value)
    allowed = "120ms, 0.12 s/step, 608 images/s, 152 images/s/device, 5.1 steps/s, 910 s/epoch"
    raise UserError(f"{option} {text.strip():.60}: must be above 0, with a unit, such as {allowed}")


def read_numbers(
    one: str | None, one_devices: int, many: str | None, devices: int | None, others: Sequence[str]
) -> tuple[Posted, ...]:
    """Read the numbers of few and many devices, and others such as `2=95ms`.

    Raises:
        UserError: a number is missing or not allowed.
    """
    if one is None or many is None or devices is None:
        raise UserError("give --one, --many and --devices, or a file with several numbers")
    if not one_devices <= devices <= MOST_NODES:
        limits = f"--one-devices, {one_devices}, to {MOST_NODES:,}"
        raise UserError(f"--devices {devices}: must be from {limits}")
    posted = [read_number("--one", one, one_devices)]
    for text in others:
        count, _, value = text.partition("=")
        if not count.isdecimal() or not value or not one_devices < int(count) < devices:
            raise UserError(f"--at {text[:60]}: must be devices=value, between --one and --many")
        posted.append(read_number("--at", value, int(count)))
    return (*sorted(posted), read_number("--many", many, devices))

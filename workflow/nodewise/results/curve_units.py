"""Units of published values: rates such as `img/s` or `img/s/GPU`, times such as `ms` or `h/epoch`.

The parts of a unit are separated by `/` or `per`. Remarks in brackets, as in `s (mean)`, are
ignored.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from nodewise.core.schema import read_tree

_UNITS = read_tree(Path(__file__).with_name("units.yaml"))
QUANTITIES: Mapping[str, str] = _UNITS["quantities"]
"""The clock of each quantity."""
SECONDS: Mapping[str, float] = _UNITS["seconds"]
"""The seconds of each unit of time."""
PREFIXES: Mapping[str, float] = _UNITS["prefixes"]
_STEP, _EXAMPLE, _DEVICE = (re.compile(_UNITS[name]) for name in ("step", "example", "device"))


def parse_unit(quantity: str, unit: str) -> tuple[str, float]:
    """Return the clock of a value, and its unit in units of the clock.

    Throughput may be counted in anything, such as tokens or frames: predictions are in the same
    unit, and nothing depends on how many of them an example has. Without a time it is per second.

    Raises:
        ValueError: the unit is not known, or is not one of the quantity.
    """
    if quantity not in QUANTITIES:
        raise ValueError(f"quantity must be one of {', '.join(QUANTITIES)}")
    return _parse_rate(unit) if quantity == "throughput" else _parse_time(quantity, unit)


def is_per_device(unit: str) -> bool:
    """Return whether the unit of a throughput is that of each device, such as `img/s/GPU`."""
    return any(map(_DEVICE.fullmatch, _parts(unit)[1:]))


def _parts(unit: str) -> list[str]:
    text = re.sub(r"\((?!per\s)[^)]*\)|[()]", " ", unit.casefold())
    return [part.strip(" .") for part in re.split(r"/|\sper\s", text)]


def _parse_rate(unit: str) -> tuple[str, float]:
    what, *below = _parts(unit)
    times = [SECONDS[part] for part in below if part in SECONDS]
    others = [part for part in below if part not in SECONDS]
    steps = _STEP.fullmatch(what)
    per_device = len(others) == 1 and is_per_device(unit) and not steps
    if what in SECONDS or len(times) > 1 or (others and not per_device):
        raise ValueError(
            f"{unit!r} is not known: must be a rate such as img/s, img/s/GPU, tokens/min or steps/s"
        )
    per_s = 1 / times[0] if times else 1.0
    if steps:
        return "steps_per_s", per_s
    thousands = what.startswith(" ", 1) or _EXAMPLE.fullmatch(what[1:])  # kimages, k tokens
    return "samples_per_s", per_s * (PREFIXES.get(unit[:1], 1.0) if thousands else 1.0)


def _parse_time(quantity: str, unit: str) -> tuple[str, float]:
    time, *below = _parts(unit)
    of = below[0] if below else ""
    if time not in SECONDS or _EXAMPLE.fullmatch(of):
        raise ValueError(
            f"{unit!r} is not known: must be ns, us, ms, s, min, h or d, such as "
            f"{'ms/step' if quantity == 'step_time' else 'h/epoch'}"
        )
    count = re.match(r"[1-9]\d*(?=\s)", of) if quantity == "step_time" else None
    return QUANTITIES[quantity], SECONDS[time] / (int(count[0]) if count else 1)

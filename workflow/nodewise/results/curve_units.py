"""Units of published values: rates such as `img/s` or `img/s/GPU`, times such as `ms` or `h/epoch`.

The parts of a unit are separated by `/` or `per`. Remarks in brackets, as in `s (mean)`, are
ignored.
"""

import re

QUANTITIES = {"throughput": "samples_per_s", "step_time": "step_time_s"}
QUANTITIES |= dict.fromkeys(("run_time", "epoch_time"), "epoch_time_s")
"""The clock of each quantity. A run, or an epoch, does the same work on any number of devices."""

SECONDS = {
    **dict.fromkeys(("ns", "nsec"), 1e-9),
    **dict.fromkeys(("us", "\u03bcs", "usec"), 1e-6),
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
}
"""The seconds of each unit of time."""
_STEPS = ("step", "steps", "it", "iter", "iters", "iteration", "iterations", "batch", "batches")
_EXAMPLES = re.compile(r"(im(g|age)|sample|example|seq(uence)?|sentence|record|video|clip)s?")
_DEVICE = re.compile(
    r"([gtcnhix]pu|device|accelerator|chip|core|card|worker|replica|rank|process(es)?)s?"
)
PREFIXES = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9}  # of units


def parse_unit(quantity: str, unit: str) -> tuple[str, float]:
    """Return the clock of a value, and its unit in units of the clock.

    Throughput may be counted in anything, such as tokens or frames: predictions are in the same
    unit, and nothing depends on how many of them an example has. Without a time it is per second.

    Raises:
        ValueError: the unit is not known, or is not one of the quantity.
    """
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
    steps = what in _STEPS
    per_device = len(others) == 1 and is_per_device(unit) and not steps
    if what in SECONDS or len(times) > 1 or (others and not per_device):
        raise ValueError(
            f"{unit!r} is not known: must be a rate such as img/s, img/s/GPU, tokens/min or steps/s"
        )
    per_s = 1 / times[0] if times else 1.0
    if steps:
        return "steps_per_s", per_s
    thousands = what.startswith(" ", 1) or _EXAMPLES.fullmatch(what[1:])  # kimages, k tokens
    return "samples_per_s", per_s * (PREFIXES.get(unit[:1], 1.0) if thousands else 1.0)


def _parse_time(quantity: str, unit: str) -> tuple[str, float]:
    time, *below = _parts(unit)
    of = below[0] if below else ""
    if time not in SECONDS or _EXAMPLES.fullmatch(of):
        raise ValueError(
            f"{unit!r} is not known: must be ns, us, ms, s, min, h or d, such as "
            f"{'ms/step' if quantity == 'step_time' else 'h/epoch'}"
        )
    count = re.match(r"[1-9]\d*(?=\s)", of) if quantity == "step_time" else None
    return QUANTITIES[quantity], SECONDS[time] / (int(count[0]) if count else 1)

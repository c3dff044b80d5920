"""Format numbers with their units, and name the kinds of numbers (measured, predicted, …)."""

import math
from collections.abc import Callable
from functools import partial

KINDS = {
    "measured": "timed by this project, on real processes of the machines that a cell names",
    "emulated": "timed by this project, on nodes whose cores and network were throttled on purpose",
    "emulated soft": "as emulated, but by stopping and continuing processes, without a CPU cgroup",
    "published": "published by others, or computed from what they published alone",
    "imported": "timed by others, and read from a file that the study names",
    "fitted": "a formula's value where it was fitted to points",
    "predicted": "a formula's value for a point that it was not fitted to",
    "estimated": "energy as CPU time × the watts per core that the study declares, without a meter",
    "counted": "follows from a model's layers and their shapes; nothing was timed",
}
PROJECTED = "step time × steps"
GENERATED = "generated data"


def kind_label(
    kind: str, data_origin: str = "", weights: str = "", *, projected: bool = False
) -> str:
    """Return the label of a kind of number, such as `measured step time × steps`.

    Args:
        kind: one of `KINDS`.
        data_origin: where the examples came from; `generated` is added to the label.
        weights: for a loss or an accuracy, what training started from. `random` is added to the
            label; it means that pretrained weights were intended.
        projected: whether the number is a step time multiplied by a number of steps.

    Raises:
        ValueError: `kind` is not one of `KINDS`. No number is shown without its kind.
    """
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is not a kind of number; kinds: {', '.join(KINDS)}")
    label = f"{kind} {PROJECTED}" if projected else kind
    if data_origin == "generated":
        label = f"{label}, {GENERATED}"
    return f"{label}, from random weights" if weights == "random" else label


def base_kind(label: str) -> str:
    """Return the kind (one of `KINDS`) in a label made by `kind_label`.

    Raises:
        ValueError: the label does not begin with a kind.
    """
    kind = label.split(",", maxsplit=1)[0].removesuffix(f" {PROJECTED}")
    if kind not in KINDS:
        raise ValueError(f"{label!r} does not begin with a kind of number")
    return kind


def write_number(value: float | None, unit: str) -> str:
    """Format a number with its unit, usually with three significant digits.

    Args:
        value: seconds, joules, bytes, bytes or bits per second, operations, operations per byte,
            a share, a ratio or a count. None or a value that is not finite is written as `–`.
        unit: `s`, `J`, `B`, `B/s`, `bit/s`, `FLOP`, `FLOP/B`, `share` (as a percentage),
            `accuracy`, `×`, `times` (a ratio in two digits, as many as the intervals of most
            speed-ups support), `` (a count), `/s` (a rate of counts) or `mean` (of counts).

    Raises:
        ValueError: `unit` is none of these.

    Example:
        >>> write_number(0.01234, "s"), write_number(0.857, "share"), write_number(1.618, "×")
        ('12.3 ms', '85.7 %', '1.62×')
    """
    if unit not in _WRITERS:
        raise ValueError(f"{unit!r} is not a unit that numbers are written in")
    return "–" if value is None or not math.isfinite(value) else _WRITERS[unit](value)


def counted(number: int, noun: str) -> str:
    """Format a number of things with their noun, in the plural if needed.

    Example:
        >>> counted(1, "cell"), counted(1200, "cell")
        ('1 cell', '1,200 cells')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def write_percent(share: float) -> str:
    """Format a share as a whole percentage, for shares that were chosen or are only rough.

    Example:
        >>> write_percent(0.1), write_percent(0.057)
        ('10 %', '6 %')
    """
    return f"{100 * share:.0f} %"


def write_plain(value: float) -> str:
    """Format a number with four significant digits, but with all digits of its integer part.

    Example:
        >>> write_plain(0.01234), write_plain(12345.67), write_plain(9999.7)
        ('0.01234', '12,346', '10,000')
    """
    return f"{value:,.4g}" if abs(value) < 9999.5 else f"{value:,.0f}"


def write_duration(seconds: float | None) -> str:
    """Format a duration in the units that people use, such as `1 h 2 min`.

    Example:
        >>> [write_duration(seconds) for seconds in (0, 0.0424, 457.2, 3700, 200_000)]
        ['0 s', '42.4 ms', '7.62 min', '1 h 2 min', '2 days 7 h']
    """
    if seconds is None or not 60 <= seconds < math.inf:
        return write_number(seconds, "s")
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{seconds / 60:.3g} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes // 1440:,} days {minutes % 1440 // 60} h"


def _scaled(value: float, unit: str) -> str:
    if value == 0:
        return f"0 {unit}"
    rounded = abs(float(f"{value:.3g}"))  # 999.9 ms is 1.00 s
    size, prefix = next((one for one in _PREFIXES[unit] if rounded >= one[0]), _PREFIXES[unit][-1])
    return f"{_digits(value / size)} {prefix}{unit}"


def _digits(value: float, digits: int = 3) -> str:
    """Format a number with so many significant digits, without an exponent."""
    if value == 0:
        return "0"
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])  # of the rounded value
    places = min(max(0, digits - 1 - exponent), 6)
    return f"{value:,.{places}f}".replace("-", "−")


_LARGE = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_PREFIXES = {
    "s": ((1.0, ""), (1e-3, "m"), (1e-6, "µ")),
    "J": (*_LARGE[2:], (1e-3, "m")),
    **dict.fromkeys(("B", "B/s", "bit/s"), _LARGE[1:]),
    **dict.fromkeys(("FLOP", "FLOP/B"), _LARGE),
}
_WRITERS: dict[str, Callable[[float], str]] = {
    **{unit: partial(_scaled, unit=unit) for unit in _PREFIXES},
    "share": lambda value: f"{_digits(100 * value)} %",
    "accuracy": lambda value: f"{value:.3f}",
    "×": lambda value: f"{_digits(value)}×",
    "times": partial(_digits, digits=2),
    "": lambda value: f"{value:,.0f}",
    **dict.fromkeys(("/s", "mean"), _digits),
}

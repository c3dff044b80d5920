"""Read the machine's energy meters, where permitted.

They count whole processors or graphics cards, whichever process uses them.
"""

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_POWERCAP = Path("/sys/class/powercap")


class Reading(NamedTuple):
    """A reading of one meter: its joules, and the value at which it wraps around to 0."""

    joules: float
    turns_at: float


def readings(powercap: Path = _POWERCAP) -> dict[str, Reading]:
    """Return the current reading of every meter: RAPL of each processor, NVML of each GPU.

    Source: the kernel's power capping framework (`energy_uj`, `max_energy_range_uj`) and NVML's
    `nvmlDeviceGetTotalEnergyConsumption`. The result is empty if no meter can be read.
    """
    return _processors(powercap) | _graphics()


class Meters:
    """The sum of all meters of the machine since this object was created."""

    def __init__(self, powercap: Path = _POWERCAP) -> None:
        self._powercap = powercap
        self._seen = readings(powercap)
        self._joules: float | None = 0.0

    def joules(self) -> float | None:
        """Return the joules since this was created; None if there are no meters.

        Call it at least once a minute: a meter is assumed to wrap around at most once between two
        calls.
        """
        now = readings(self._powercap)
        more = spent(self._seen, now)
        self._seen = now
        self._joules = None if self._joules is None or more is None else self._joules + more
        return self._joules


def spent(before: dict[str, Reading], after: dict[str, Reading]) -> float | None:
    """Return the joules between two readings of the same meters; None if there are no meters.

    A meter with a lower value than before has wrapped around once.
    """
    if not before or before.keys() != after.keys():
        return None
    return sum((now.joules - before[name].joules) % now.turns_at for name, now in after.items())


def _processors(powercap: Path) -> dict[str, Reading]:
    found = {}
    for package in sorted(powercap.glob("intel-rapl:*")):
        with suppress(OSError, ValueError):
            # skip domains that are parts of a package or contain it
            if not (package / "name").read_text().startswith("package"):
                continue
            microjoules, most = (
                int((package / name).read_text()) for name in ("energy_uj", "max_energy_range_uj")
            )
            found[package.name] = Reading(microjoules / 1e6, most / 1e6)
    return found


def _graphics() -> dict[str, Reading]:
    try:
        import pynvml  # type: ignore[import-not-found] # optional: not a dependency of this project
    except ImportError:
        return {}
    found = {}
    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        for number in range(pynvml.nvmlDeviceGetCount()):
            device = pynvml.nvmlDeviceGetHandleByIndex(number)
            millijoules = pynvml.nvmlDeviceGetTotalEnergyConsumption(device)
            found[f"gpu{number}"] = Reading(millijoules / 1e3, float("inf"))
    return found

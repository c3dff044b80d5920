"""Energy meters of the machine, where they can be read.

They count whole processors or graphics cards, whoever uses them.
"""

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_POWERCAP = Path("/sys/class/powercap")


class Reading(NamedTuple):
    """What one meter showed: joules, and how many it counts before it starts again from 0."""

    joules: float
    turns_at: float


def readings(powercap: Path = _POWERCAP) -> dict[str, Reading]:
    """Return the present reading of every meter: RAPL's of each processor, NVML's of each GPU.

    Source: the kernel's power capping framework (`energy_uj`, `max_energy_range_uj`) and NVML's
    `nvmlDeviceGetTotalEnergyConsumption`. Empty where none may be read.
    """
    return _processors(powercap) | _graphics()


class Meters:
    """All meters of the machine together, from now on."""

    def __init__(self, powercap: Path = _POWERCAP) -> None:
        self._powercap = powercap
        self._seen = readings(powercap)
        self._joules: float | None = 0.0

    def joules(self) -> float | None:
        """Return the joules since this was made; None if there are no meters.

        To be asked at least once a minute: meters that turned over are taken to have done so once.
        """
        now = readings(self._powercap)
        more = spent(self._seen, now)
        self._seen = now
        self._joules = None if self._joules is None or more is None else self._joules + more
        return self._joules


def spent(before: dict[str, Reading], after: dict[str, Reading]) -> float | None:
    """Return the joules between two readings of the same meters; None if there are no meters.

    A meter that turned over did so once.
    """
    if not before or before.keys() != after.keys():
        return None
    return sum((now.joules - before[name].joules) % now.turns_at for name, now in after.items())


def _processors(powercap: Path) -> dict[str, Reading]:
    found = {}
    for package in sorted(powercap.glob("intel-rapl:*")):
        with suppress(OSError, ValueError):
            # not its parts, nor a whole computer, of which it is a part
            if not (package / "name").read_text().startswith("package"):
                continue
            microjoules, most = (
                int((package / name).read_text()) for name in ("energy_uj", "max_energy_range_uj")
            )
            found[package.name] = Reading(microjoules / 1e6, most / 1e6)
    return found


def _graphics() -> dict[str, Reading]:
    try:
        import pynvml  # type: ignore[import-not-found] # not one of ours: it is there or it is not
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

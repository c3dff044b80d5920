"""Read the energy meters of the machine's processors, where permitted.

They count whole processors, whichever process uses them. Source: the kernel's power capping
framework, RAPL (`energy_uj`, `max_energy_range_uj`).
"""

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_POWERCAP = Path("/sys/class/powercap")


class Reading(NamedTuple):
    """A reading of one meter: its joules, and the value at which it wraps around to 0."""

    joules: float
    turns_at: float


class Meters:
    """The sum of all meters of the machine since this object was created."""

    def __init__(self, powercap: Path = _POWERCAP) -> None:
        self._powercap, self._joules = powercap, 0.0
        self._seen = self._readings()

    def joules(self) -> float | None:
        """Return the joules since this was created; None if there are no meters.

        Call it at least once a minute: a meter with a lower value than at the last call is assumed
        to have wrapped around once.
        """
        now, before = self._readings(), self._seen
        if not before or before.keys() != now.keys():
            self._seen = {}
            return None
        self._joules += sum((now[n].joules - before[n].joules) % now[n].turns_at for n in now)
        self._seen = now
        return self._joules

    def _readings(self) -> dict[str, Reading]:
        found = {}
        for package in sorted(self._powercap.glob("intel-rapl:*")):
            with suppress(OSError, ValueError):
                # skip domains that are parts of a package or contain it
                if (package / "name").read_text().startswith("package"):
                    names = ("energy_uj", "max_energy_range_uj")
                    joules, most = (int((package / name).read_text()) / 1e6 for name in names)
                    found[package.name] = Reading(joules, most)
        return found

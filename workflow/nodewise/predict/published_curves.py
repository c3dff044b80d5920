"""Published scaling curves: efficiency by number of devices, and who published each curve.

The table is `data/published/scaling_curves.csv`; each of its rows has the address of its source.
"""

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from nodewise.results.curves import Curve, Floats
from nodewise.results.importers import import_curves

PUBLISHED = Path(__file__).parents[3] / "data" / "published" / "scaling_curves.csv"
_MLPERF = re.compile(r"https?://github\.com/mlcommons/[^/]+/tree/[^/]+/([^/]+)")
_REPOSITORY = re.compile(r"https?://github\.com/([^/]+/[^/]+)")


@dataclass(frozen=True)
class Scaling:
    """A curve by number of devices, in ascending order.

    `efficiency` is the log of the examples per second and device, in any unit: its differences
    count. `hosts` are the machines that the devices are in, `batch` is that of a device. `strong`
    says that the global batch stays the same.
    """

    devices: Floats
    efficiency: Floats
    hosts: Floats
    batch: Floats
    strong: bool

    def __len__(self) -> int:
        return len(self.devices)

    def part(self, start: int, stop: int) -> "Scaling":
        """Return the points from `start` to before `stop`."""
        few = slice(start, stop)
        arrays = (self.devices, self.efficiency, self.hosts, self.batch)
        return Scaling(*(values[few] for values in arrays), strong=self.strong)


def scaling_of(curve: Curve) -> Scaling | None:
    """Return a curve by number of devices, or None if it has several points of one number."""
    points = sorted(curve.measured, key=lambda point: point.nodes)
    if len(curve.nodes) < len(points):
        return None
    devices = np.array([point.nodes for point in points], float)
    batch = np.array([point.batch_per_worker for point in points])
    known = [point.hosts for point in points]
    hosts = [hosts_of(curve, n, h) for n, h in zip(devices, known, strict=True)]
    step_time = np.array([point.step_time for point in points])
    return Scaling(
        devices=devices,
        efficiency=np.log(batch / step_time),
        hosts=np.array(hosts),
        batch=batch,
        strong=curve.scaling == "strong",
    )


def hosts_of(curve: Curve, devices: float, hosts: float | None) -> float:
    """Return in how many machines so many devices are: as given, or full ones."""
    return float(hosts or np.ceil(devices / (curve.devices_per_host or 1)))


def publisher_of(address: str) -> str:
    """Return who published: owner and repository, the submitter for MLPerf, else the site."""
    for pattern in (_MLPERF, _REPOSITORY):
        if found := pattern.match(address):
            return found[1].lower()
    return re.sub(r"^https?://", "", address).partition("/")[0]


@cache
def read_published(path: Path = PUBLISHED) -> tuple[tuple[str, str, Scaling], ...]:
    """Return publisher, name and points of each published curve."""
    with path.open(encoding="utf-8", newline="") as file:
        publishers = {row["curve"]: publisher_of(row["source_url"]) for row in csv.DictReader(file)}
    found = ((curve.name, scaling_of(curve)) for curve in import_curves(path).curves)
    return tuple((publishers[name], name, points) for name, points in found if points is not None)


def without(
    curves: Iterable[tuple[str, str, Scaling]], publisher: str
) -> tuple[tuple[str, str, Scaling], ...]:
    """Return the curves of all others than a publisher."""
    return tuple(curve for curve in curves if curve[0] != publisher)

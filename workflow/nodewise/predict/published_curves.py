"""Published scaling curves: efficiency by number of devices, and the publisher of each curve.

The table is `data/published/curves/scaling_curves.csv`. Each row has the address of its source.
"""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from nodewise.results.curves import Curve, Floats
from nodewise.results.importers import import_curves
from nodewise.results.published import FOLDER

PUBLISHED = FOLDER / "curves/scaling_curves.csv"


@dataclass(frozen=True)
class Scaling:
    """A scaling curve, in ascending order of devices. Arrays have shape (points,).

    Attributes:
        devices: numbers of devices.
        efficiency: log of examples per second and device, in any unit; only differences matter.
        hosts: number of machines that the devices are in.
        batch: batch per device.
        strong: whether the global batch is the same at all points (strong scaling).
        publisher: who published the curve.
    """

    devices: Floats
    efficiency: Floats
    hosts: Floats
    batch: Floats
    strong: bool
    publisher: str = ""

    def __len__(self) -> int:
        return len(self.devices)

    def at(self, chosen: slice | list[int]) -> "Scaling":
        """Return the points at these positions."""
        return replace(
            self,
            devices=self.devices[chosen],
            efficiency=self.efficiency[chosen],
            hosts=self.hosts[chosen],
            batch=self.batch[chosen],
        )


def scaling_of(curve: Curve) -> Scaling | None:
    """Convert a curve; return None if it has several points with the same number of devices."""
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
        publisher=curve.publisher,
    )


def hosts_of(curve: Curve, devices: float, hosts: float | None) -> float:
    """Return the number of machines: as given, or as many as needed if machines are full."""
    return float(hosts or np.ceil(devices / curve.per_host))


@cache
def read_published() -> tuple[Scaling, ...]:
    """Return all published curves that have one point per number of devices."""
    found = (scaling_of(curve) for curve in import_curves(PUBLISHED).curves)
    return tuple(curve for curve in found if curve is not None)

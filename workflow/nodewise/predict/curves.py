"""The points of curves that are not of a study's records."""

from collections.abc import Iterable

import numpy as np

from nodewise.predict.fit import Points
from nodewise.results.curves import Curve


def points_of(curves: Iterable[Curve]) -> Points:
    """Return the points of curves that are fitted together; each is its own model."""
    rows = [(curve, point) for curve in curves for point in curve.measured]

    def numbers(name: str) -> list[float]:
        values = (getattr(point, name) for _, point in rows)
        return [np.nan if value is None else float(value) for value in values]

    return Points.of(
        numbers("nodes"),
        numbers("batch_per_worker"),
        [curve.payload for curve, _ in rows],
        numbers("step_time"),
        model=[curve.name for curve, _ in rows],
        link=[curve.link for curve, _ in rows],
        compute_s=numbers("compute"),
        wait_s=numbers("wait"),
        communicate_s=numbers("communicate"),
        noise=numbers("noise"),
    )

"""The laws and the points of curves that are not of a study's records."""

from collections.abc import Iterable, Mapping

import numpy as np

from nodewise.predict.fit import Points
from nodewise.predict.law import Law
from nodewise.predict.laws.halving_doubling import HalvingDoubling
from nodewise.predict.laws.none import NoExchange
from nodewise.predict.laws.parameter_server import ParameterServer
from nodewise.predict.laws.ring import RingAllReduce
from nodewise.predict.laws.star import Star
from nodewise.predict.laws.tree import BinomialTree
from nodewise.results.curves import Collective, Curve

LAW_OF: Mapping[Collective, Law] = {
    "ring": RingAllReduce(),
    "halving_doubling": HalvingDoubling(),
    "tree": BinomialTree(),
    "star": Star(),
    "parameter_server": ParameterServer(),
    "none": NoExchange(),
}
"""The law of each value of the column `collective`."""


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

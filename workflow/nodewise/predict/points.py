"""The points that laws are evaluated at and fitted to, as arrays with labels."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Labels = NDArray[np.str_]


@dataclass(frozen=True)
class Points:
    """Points of curves, as arrays of one shape. What was not measured is NaN.

    Attributes:
        nodes: numbers of nodes n, at least 1.
        batch: examples per worker and step, b.
        payload: size of one gradient in bytes, S.
        model: labels; points of one model share the coefficients of computing.
        link: labels; points of one link share latency and bandwidth.
        step_s: seconds in which nodes × batch examples are processed.
        compute_s, wait_s, communicate_s: parts of the step in seconds.
        noise: relative standard deviation of `step_s`, from repeats.
    """

    nodes: Floats
    batch: Floats
    payload: Floats
    model: Labels
    link: Labels
    step_s: Floats
    compute_s: Floats
    wait_s: Floats
    communicate_s: Floats
    noise: Floats

    @classmethod
    def of(
        cls,
        nodes: ArrayLike,
        batch: ArrayLike,
        payload: ArrayLike,
        step_s: ArrayLike = np.nan,
        *,
        model: ArrayLike = "",
        link: ArrayLike = "",
        **measured: ArrayLike,
    ) -> "Points":
        """Return points from arrays; a single value holds for all points.

        Raises:
            ValueError: shapes do not match.
        """
        given = {"nodes": nodes, "batch": batch, "payload": payload, "step_s": step_s} | measured
        numbers = {name: np.asarray(column, np.float64) for name, column in given.items()}
        columns = numbers | {"model": np.asarray(model, str), "link": np.asarray(link, str)}
        arrays = (columns.get(each.name, np.array(np.nan)) for each in fields(cls))
        return cls(*np.broadcast_arrays(*arrays))

    def __len__(self) -> int:
        return len(self.nodes)

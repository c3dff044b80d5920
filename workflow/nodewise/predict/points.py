"""The points that a law is fitted to, as arrays with labels."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nodewise.predict.law import At, Floats, Mask, Scope

Labels = NDArray[np.str_]


class Line(NamedTuple):
    """One batch of one model on one link.

    `batch` is in examples per worker, rounded to six digits.
    """

    model: str
    link: str
    batch: float

    def __str__(self) -> str:
        """Return the name of the line in files."""
        return f"{self.model}|{self.link}|{self.batch:g}"

    def label(self, scope: Scope) -> "Label":
        """Return the label under which coefficients of a scope are shared."""
        labels: dict[Scope, Label] = {"model": self.model, "link": self.link, "line": self}
        return labels[scope]


Label = str | Line
"""The label of a coefficient: the name of a model, the name of a link, or a line."""


@dataclass(frozen=True)
class Points:
    """Measured points, as arrays of shape (points,).

    Attributes:
        nodes: numbers of nodes.
        batch: examples per worker and step.
        payload: size of one gradient in bytes.
        step_s: seconds in which nodes × batch examples are processed, above 0.
        model: labels; points of one model share the coefficients of computing.
        link: labels; points of one link share latency and bandwidth.
        compute_s, wait_s, communicate_s: parts of the step in seconds, NaN where not measured.
        noise: relative standard deviation of `step_s`, from repeats; NaN where unknown.
    """

    nodes: Floats
    batch: Floats
    payload: Floats
    step_s: Floats
    model: Labels
    link: Labels
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
        step_s: ArrayLike,
        *,
        model: ArrayLike = "",
        link: ArrayLike = "",
        compute_s: ArrayLike = np.nan,
        wait_s: ArrayLike = np.nan,
        communicate_s: ArrayLike = np.nan,
        noise: ArrayLike = np.nan,
    ) -> "Points":
        """Return points from arrays; a single value holds for all points.

        Raises:
            ValueError: shapes do not match, nodes, batch or payload are not finite, or a step time
                is not above 0.
        """
        numbers = [nodes, batch, payload, step_s, compute_s, wait_s, communicate_s, noise]
        floats = np.broadcast_arrays(*(np.asarray(x, float) for x in numbers))
        shape = floats[3].shape
        labels = [np.broadcast_to(np.asarray(x, str), shape) for x in (model, link)]
        points = cls(*floats[:4], *labels, *floats[4:])
        points._check()
        return points

    def _check(self) -> None:
        axes = (self.nodes, self.batch, self.payload, self.step_s)
        if self.step_s.ndim != 1:
            raise ValueError("points are arrays of one dimension")
        if not all(np.isfinite(axis).all() for axis in axes) or not (self.step_s > 0).all():
            raise ValueError("points need finite axes and step times above 0")

    def __len__(self) -> int:
        return len(self.nodes)

    def where(self, mask: Mask) -> "Points":
        """Return the points where `mask`, of shape (points,), is true."""
        return Points(*(getattr(self, name)[mask] for name in self.__dataclass_fields__))

    @property
    def at(self) -> At:
        """Nodes, batch and payload of the points, for evaluating a law."""
        return At.of(self.nodes, self.batch, self.payload)

    @property
    def lines(self) -> tuple[list[Line], NDArray[np.intp]]:
        """The lines of the points, and the index of the line of each point."""
        return lines_of(self.model, self.link, self.batch)


def lines_of(model: Labels, link: Labels, batch: Floats) -> tuple[list[Line], NDArray[np.intp]]:
    """Return the lines of points, and the index of the line of each point, (points,).

    There are many points but few lines, so callers can look things up once per line.
    """
    exact = batch.tolist()
    rounded = {value: float(f"{value:g}") for value in set(exact)}
    batches = [rounded[value] for value in exact]
    points = list(zip(model.tolist(), link.tolist(), batches, strict=True))
    places = {line: place for place, line in enumerate(dict.fromkeys(points))}
    of = np.array([places[line] for line in points], dtype=np.intp)
    return [Line(*line) for line in places], of

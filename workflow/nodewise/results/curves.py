"""Curves: step times by nodes and batch, for one model trained with one strategy."""

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from nodewise.core.cell import Frozen
from nodewise.results.curve_units import is_per_device
from nodewise.results.record import Positive

USUAL = "ring"
"""The default collective of curves that do not name one."""

Clock = Literal["step_time_s", "samples_per_s", "epoch_time_s", "steps_per_s"]
CLOCKS: tuple[Clock, ...] = get_args(Clock)
Scaling = Literal["weak", "strong", "unknown"]
TEXT_LENGTH = 200
MOST_NODES = 65_536
_ROUNDED = 0.05

Floats = NDArray[np.float64]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be one line of text")
    return text


Line = Annotated[str, Field(max_length=TEXT_LENGTH), AfterValidator(_one_line)]
Text = Annotated[Line, Field(min_length=1)]


class Measured(Frozen):
    """One point of a curve: the median of `repeats` equal measurements.

    `noise` is the relative standard error of the median, if known. A node is a unit that trains a
    part of the batch. If nodes are devices of machines with several devices, `hosts` is the number
    of machines.
    """

    nodes: int = Field(ge=1, le=MOST_NODES)
    hosts: int | None = Field(default=None, ge=1)
    batch_per_worker: Positive
    step_time_s: Positive
    compute_s: Seconds | None = None
    wait_s: Seconds | None = None
    communicate_s: Seconds | None = None
    noise: Seconds | None = None
    repeats: int = Field(default=1, ge=1)

    @property
    def has_parts(self) -> bool:
        """Whether a part of the step was measured."""
        return bool(self.compute_s or self.wait_s or self.communicate_s)


class Curve(Frozen):
    """One measured curve. Points are ordered by batch and nodes.

    Times are in seconds, with one exception: if only epochs were timed, and the number of
    `examples` of an epoch is unknown, they are times of an epoch of one example.

    Attributes:
        name: name of the curve.
        collective: the law of its step times.
        clock: the column from which the times were read.
        measured: the points.
        cluster: curves of one cluster share latency and bandwidth; None if shared with no other.
        unit: unit of the values in the file, such as `img/s` or `h`.
        unit_value: `unit` in units of the clock.
        publisher: who published the curve, if the file has addresses.
        scaling: what was constant: the batch per node (weak) or the global batch (strong).
        batch_known: whether the file has batches. If not, they are placeholders: one example per
            node, or a global batch of `MOST_NODES` examples with strong scaling.
        devices_per_host: nodes per machine, if known.
        payload_bytes: size of one gradient, if known.
        examples: number of examples of an epoch, if known.
        notes: remarks for readers.
    """

    name: Text
    collective: str = USUAL
    clock: Clock
    measured: tuple[Measured, ...] = Field(min_length=1)
    cluster: Text | None = None
    unit: Line = ""
    unit_value: Positive = 1.0
    publisher: Line = ""
    scaling: Scaling = "unknown"
    batch_known: bool = True
    devices_per_host: Positive | None = None
    payload_bytes: Positive | None = None
    examples: Positive | None = None
    notes: tuple[str, ...] = ()

    @property
    def node(self) -> str:
        """The word for a node in texts for readers."""
        in_machines = self.devices_per_host and any(point.hosts for point in self.measured)
        return "device" if self.unit or in_machines else "node"

    @property
    def in_seconds(self) -> bool:
        """Whether times are in seconds."""
        return self.clock != "epoch_time_s" or self.examples is not None

    @property
    def like_published(self) -> bool:
        """Whether no more is known than of published curves: no gradient, and no part of a step."""
        return self.payload_bytes is None and not any(point.has_parts for point in self.measured)

    @property
    def payload(self) -> float:
        """The payload in bytes. If unknown it is 1, and one gradient is the unit of payload."""
        return self.payload_bytes or 1.0

    @property
    def link(self) -> str:
        """The label shared by curves with the same latency and bandwidth."""
        return self.name if self.cluster is None else self.cluster

    @property
    def nodes(self) -> list[int]:
        """The measured numbers of nodes, ascending."""
        return sorted({point.nodes for point in self.measured})

    @property
    def batches(self) -> list[float]:
        """The measured batches per worker, ascending."""
        return sorted({point.batch_per_worker for point in self.measured})

    @property
    def global_batch(self) -> float | None:
        """The global batch, if it is the same at all points and there are several node counts."""
        batches = {round(point.nodes * point.batch_per_worker, 6) for point in self.measured}
        return batches.pop() if len(batches) == 1 and len(self.nodes) > 1 else None

    @property
    def per_host(self) -> float:
        """Nodes per machine: as given, else the most that were measured; 1 if unknown."""
        seen = [point.nodes / point.hosts for point in self.measured if point.hosts]
        return self.devices_per_host or max(seen, default=1.0)

    def own_value(self, step_time: Floats, nodes: Floats, batch: Floats) -> Floats:
        """Convert step times to the quantity and unit of the file.

        Arguments have equal or broadcastable shapes.
        """
        examples = nodes * batch
        if self.clock == "samples_per_s":
            value = examples / step_time / (nodes if is_per_device(self.unit) else 1.0)
        elif self.clock == "steps_per_s":
            value = 1 / step_time
        elif self.clock == "epoch_time_s":
            value = step_time * (self.examples or 1.0) / examples
        else:
            value = step_time
        return value / self.unit_value


def same_batch(one: float, other: float, nodes: float) -> bool:
    """Return whether two global batches are equal, if batches per node may be rounded."""
    return one == other or abs(one - other) < max(nodes, _ROUNDED * other)


@dataclass(frozen=True)
class Measurements:
    """The curves of a file, in the order of the file, and notes on the whole file."""

    source: str
    sha256: str
    curves: tuple[Curve, ...]
    notes: tuple[str, ...]

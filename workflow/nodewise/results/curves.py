"""Curves: step times by nodes and batch, of one model trained with one strategy."""

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from nodewise.core.cell import Frozen
from nodewise.results.quantities import Positive

USUAL = "ring"
"""The collective of workers that step together, where nobody says what ran."""

Clock = Literal["step_time_s", "samples_per_s", "epoch_time_s", "steps_per_s"]
CLOCKS: tuple[Clock, ...] = get_args(Clock)
Scaling = Literal["weak", "strong", "unknown"]
SCALINGS: tuple[Scaling, ...] = get_args(Scaling)
TEXT_LENGTH = 200
MOST_NODES = 65_536

Floats = NDArray[np.float64]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be one line of text")
    return text


Text = Annotated[str, Field(min_length=1, max_length=TEXT_LENGTH), AfterValidator(_one_line)]


class Measured(Frozen):
    """The median of `repeats` rows alike. `noise` is its relative standard error, if they tell.

    A node is what trains a part of the batch; `hosts` are the machines that the nodes are in, where
    a node is a device of a machine that has several.
    """

    nodes: int = Field(ge=1, le=MOST_NODES)
    hosts: int | None = Field(default=None, ge=1)
    batch_per_worker: Positive
    step_time: Positive
    compute: Seconds | None = None
    wait: Seconds | None = None
    communicate: Seconds | None = None
    noise: Seconds | None = None
    repeats: int = Field(ge=1)


class Curve(Frozen):
    """What was measured of one curve, ordered by batch and nodes.

    `clock` is the column that its times came from. Times are in seconds, but where only epochs were
    timed and nobody said how many `examples` one has: there they are for an epoch of one example.
    `cluster` is what it shares latency and bandwidth with; None: with no other curve. `collective`
    names the law of its step times; if it is `assumed`, nobody said which it is. `scaling` says
    what stayed the same: the batch of a node (weak) or that of all nodes (strong). Unless
    `batch_known`, nobody said how large batches were: a node then has one example (weak), or all
    nodes together `MOST_NODES` (strong).

    Values of the file were in `unit`, which is `unit_value` of the clock's own: `img/s`, `h`.
    `publisher` is who published the curve, if the file has addresses.
    """

    name: Text
    collective: str = USUAL
    assumed: bool = False
    clock: Clock
    measured: tuple[Measured, ...] = Field(min_length=1)
    cluster: Text | None = None
    unit: Annotated[str, AfterValidator(_one_line)] = ""
    unit_value: Positive = 1.0
    publisher: Annotated[str, Field(max_length=TEXT_LENGTH), AfterValidator(_one_line)] = ""
    scaling: Scaling = "unknown"
    batch_known: bool = True
    devices_per_host: Positive | None = None
    payload_bytes: Positive | None = None
    examples: Positive | None = None
    notes: tuple[str, ...] = ()

    @property
    def node(self) -> str:
        """What readers call one of its nodes."""
        return "device" if self.unit else "node"

    @property
    def in_seconds(self) -> bool:
        """Whether its times are in seconds."""
        return self.clock != "epoch_time_s" or self.examples is not None

    @property
    def payload(self) -> float:
        """The payload in bytes; 1 if unknown, a gradient then being the unit of payload."""
        return self.payload_bytes or 1.0

    @property
    def link(self) -> str:
        """The label of the curves that share latency and bandwidth."""
        return self.name if self.cluster is None else self.cluster

    @property
    def nodes(self) -> list[int]:
        """The numbers of nodes that were measured."""
        return sorted({point.nodes for point in self.measured})

    @property
    def batches(self) -> list[float]:
        """The batches per worker that were measured."""
        return sorted({point.batch_per_worker for point in self.measured})

    @property
    def global_batch(self) -> float | None:
        """The global batch, if it was the same on all of several numbers of nodes."""
        batches = {round(point.nodes * point.batch_per_worker, 6) for point in self.measured}
        return batches.pop() if len(batches) == 1 and len(self.nodes) > 1 else None

    @property
    def per_host(self) -> float:
        """The nodes in a machine: as given, else as many as a machine had; 1 if unknown."""
        seen = [point.nodes / point.hosts for point in self.measured if point.hosts]
        return self.devices_per_host or max(seen, default=1.0)

    def own_value(self, step_time: Floats, nodes: Floats, batch: Floats) -> Floats:
        """Return step times as the file has them: in its quantity, and in its unit."""
        examples = nodes * batch
        if self.clock == "samples_per_s":
            value = examples / step_time
        elif self.clock == "steps_per_s":
            value = 1 / step_time
        elif self.clock == "epoch_time_s":
            value = step_time * (self.examples or 1.0) / examples
        else:
            value = step_time
        return value / self.unit_value


@dataclass(frozen=True)
class Measurements:
    """The curves of a file, in its order, and what is to be said of the file as a whole."""

    source: str
    sha256: str
    curves: tuple[Curve, ...]
    notes: tuple[str, ...]

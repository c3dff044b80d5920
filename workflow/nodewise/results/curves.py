"""Curves: step times by nodes and batch, of one model trained with one strategy."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field

from nodewise.core.cell import Frozen

USUAL = "ring"
"""The collective of workers that step together, where nobody says what ran."""

Clock = Literal["step_time_s", "samples_per_s", "epoch_time_s"]
CLOCKS: tuple[Clock, ...] = get_args(Clock)
TEXT_LENGTH = 200
MOST_NODES = 65_536

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be one line of text")
    return text


Text = Annotated[str, Field(min_length=1, max_length=TEXT_LENGTH), AfterValidator(_one_line)]


class Measured(Frozen):
    """The median of `repeats` rows alike. `noise` is its relative standard error, if they tell."""

    nodes: int = Field(ge=1, le=MOST_NODES)
    batch_per_worker: int = Field(ge=1)
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
    `cluster` is what it shares latency and bandwidth with; None: with no other curve. `collective` names the
    law of its step times; if it is `assumed`, nobody said which it is.
    """

    name: Text
    collective: str = USUAL
    assumed: bool = False
    clock: Clock
    measured: tuple[Measured, ...] = Field(min_length=1)
    cluster: Text | None = None
    payload_bytes: Positive | None = None
    examples: Positive | None = None
    notes: tuple[str, ...] = ()

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
    def batches(self) -> list[int]:
        """The batches per worker that were measured."""
        return sorted({point.batch_per_worker for point in self.measured})

    @property
    def global_batch(self) -> int | None:
        """The global batch, if it was the same on all of several numbers of nodes."""
        batches = {point.nodes * point.batch_per_worker for point in self.measured}
        return batches.pop() if len(batches) == 1 and len(self.measured) > 1 else None


@dataclass(frozen=True)
class Measurements:
    """The curves of a file, in its order, and what is to be said of the file as a whole."""

    source: str
    sha256: str
    curves: tuple[Curve, ...]
    notes: tuple[str, ...]

    def groups(self) -> list[list[Curve]]:
        """Return the curves that are fitted together: of one law, and of one link.

        Where nobody said a curve's collective, it is taken for that of its cluster, if it has one.
        """
        said: dict[tuple[bool, str], set[str]] = defaultdict(set)
        for curve in self.curves:
            if not curve.assumed:
                said[curve.cluster is None, curve.link].add(curve.collective)
        together: dict[tuple[str, bool, str], list[Curve]] = defaultdict(list)
        for curve in self.curves:
            link = (curve.cluster is None, curve.link)
            known = said[link] if curve.assumed and len(said[link]) == 1 else {curve.collective}
            together[next(iter(known)), *link].append(curve)
        return list(together.values())

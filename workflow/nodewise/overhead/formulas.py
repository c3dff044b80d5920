"""Laws: the time of one training step as a formula of nodes, batch and payload.

A law is a sum of terms that depend on nodes n, batch per worker b and payload S, each times one
coefficient that is never negative. Adding a law is adding one such class: its coefficients (with
units), its terms, its source. Nothing here knows how coefficients are found; that is `fit`.

Everywhere at fixed batch per worker: an epoch then has about 1/n as many steps on n nodes.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import astuple, dataclass, fields
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Law(ABC):
    """A step time that is linear in its coefficients (the fields): finite, and at least 0."""

    name: ClassVar[str]
    source: ClassVar[str]
    # (a, b): points that cannot tell the terms of a and b apart have a fixed at 0, b fitted.
    pairs: ClassVar[tuple[tuple[str, str], ...]] = ()

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{self.name}: {field.name} must be at least 0, not {value}")

    @classmethod
    def coefficients(cls) -> tuple[str, ...]:
        """Return the names of the coefficients, in the order of `terms`."""
        return tuple(field.name for field in fields(cls))

    @classmethod
    def design(cls, nodes: ArrayLike, batch: ArrayLike, payload: ArrayLike) -> Floats:
        """Return the terms at each point: shape (…, coefficients), … being the broadcast shape.

        Args:
            nodes: n, at least 1.
            batch: b, examples per worker and step.
            payload: S, bytes of one gradient (4 per trainable float32).

        Raises:
            ValueError: fewer than one node.
        """
        n, b, s = (np.asarray(axis, dtype=np.float64) for axis in (nodes, batch, payload))
        if np.any(n < 1):
            raise ValueError("a step needs at least one node")
        shape = np.broadcast_shapes(n.shape, b.shape, s.shape)
        return np.stack([np.broadcast_to(term, shape) for term in cls.terms(n, b, s)], axis=-1)

    @staticmethod
    @abstractmethod
    def terms(n: Floats, b: Floats, s: Floats) -> tuple[ArrayLike, ...]:
        """Return the term of each coefficient, broadcastable against n, b and s."""

    def evaluate(self, nodes: ArrayLike, batch: ArrayLike, payload: ArrayLike) -> Floats:
        """Return step times in seconds, in the broadcast shape of the arguments (see `design`)."""
        seconds: Floats = self.design(nodes, batch, payload) @ np.array(astuple(self))
        return seconds


@dataclass(frozen=True)
class RingAllReduce(Law):
    """t = c₀ + c₁·b + 2(n−1)·α + 2(n−1)/n·S·β: compute, then a ring all-reduce of the gradient.

    The ring sends 2(n−1) messages of S/n bytes one after another: n−1 to sum, n−1 to spread. On
    one node nothing is sent. Compute and communication do not overlap, and nobody waits.

    Example:
        >>> ring = RingAllReduce(0.01, 1e-4, 0.0, 1 / 58e6)
        >>> ring.evaluate(nodes=[1, 2, 3], batch=100, payload=5.8e6).round(3).tolist()
        [0.02, 0.12, 0.153]
    """

    name: ClassVar[str] = "ring"
    source: ClassVar[str] = (
        "P. Patarasuk and X. Yuan, Bandwidth optimal all-reduce algorithms for clusters of "
        "workstations, Journal of Parallel and Distributed Computing 69(2), 2009"
    )
    pairs: ClassVar[tuple[tuple[str, str], ...]] = (
        ("compute_fixed_s", "compute_per_example_s"),
        ("latency_s", "seconds_per_byte"),
    )

    compute_fixed_s: float
    """c₀: seconds of compute of a step, whatever its batch"""
    compute_per_example_s: float
    """c₁: further seconds of compute per example of a worker's batch"""
    latency_s: float
    """α: seconds per message"""
    seconds_per_byte: float
    """β: one over the bandwidth in bytes per second"""

    @staticmethod
    def terms(n: Floats, b: Floats, s: Floats) -> tuple[ArrayLike, ...]:
        """Return 1, b, the number of messages, and the bytes that each node sends."""
        return 1.0, b, 2 * (n - 1), 2 * (n - 1) / n * s

    def break_even(self, batch: float, payload: float) -> int | None:
        """Return the smallest n > 1 whose epoch is shorter than one node's; None: never.

        An epoch takes t(n)/n times its steps on one node, so n pays if t(n) < n·t(1). With
        A = c₀ + c₁·b that is n > 2Sβ/(A − 2α), and never if A ≤ 2α: then each further node costs
        more messages than it takes over work.

        Args:
            batch: examples per worker and step.
            payload: bytes of one gradient.
        """
        saved = self.compute_fixed_s + self.compute_per_example_s * batch - 2 * self.latency_s
        if saved <= 0:
            return None
        threshold = 2 * payload * self.seconds_per_byte / saved
        return max(2, math.floor(threshold) + 1) if math.isfinite(threshold) else None


@dataclass(frozen=True)
class Amdahl(Law):
    """t = p + q·n: of one node's step, p is shared out among the nodes and q is not.

    Amdahl's law speaks of a whole run: T(n)/T(1) = f + (1 − f)/n with a serial share f from 0 to 1.
    A step on n nodes does n times the work, so t(n) = t(1)·(1 − f + f·n), which is p + q·n with
    f = q/(p + q). It is the law of one batch, and cannot say that nodes make a run longer.
    """

    name: ClassVar[str] = "amdahl"
    source: ClassVar[str] = (
        "G. M. Amdahl, Validity of the single processor approach to achieving large scale "
        "computing capabilities, AFIPS Spring Joint Computer Conference, 1967"
    )

    parallel_s: float
    """p: seconds of one node's step that further nodes share"""
    serial_s: float
    """q: seconds of one node's step that stay serial"""

    @staticmethod
    def terms(n: Floats, b: Floats, s: Floats) -> tuple[ArrayLike, ...]:
        """Return 1 and n."""
        return 1.0, n

    @property
    def serial_share(self) -> float:
        """Amdahl's f, from 0 to 1."""
        return self.serial_s / (self.parallel_s + self.serial_s)


@dataclass(frozen=True)
class Linear(Law):
    """t = a + k·(n−1): each further node adds the same time, as if one after another were served.

    The baseline of those who read no law: the law of one batch, as Amdahl's is, and the same line
    wherever nodes make a run shorter; only this one can say that they make it longer (k > a).
    """

    name: ClassVar[str] = "linear"
    source: ClassVar[str] = "a straight line over the nodes"

    one_node_s: float
    """a: seconds of a step on one node"""
    per_node_s: float
    """k: seconds that each further node adds"""

    @staticmethod
    def terms(n: Floats, b: Floats, s: Floats) -> tuple[ArrayLike, ...]:
        """Return 1 and n − 1."""
        return 1.0, n - 1

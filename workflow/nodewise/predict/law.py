"""The interface of laws: the time of one training step as a formula of nodes, batch and payload.

A law names its coefficients, with their units and what shares them, and says how long a step takes.
Each law is one file in `laws/`, or a module of another package that is an entry point of
`nodewise.laws`. How coefficients are found is told in `fit`.

n is the number of nodes, b the batch per worker, G = n·b the global batch, S the payload: the
bytes of one gradient. "Step time" is always the time in which n·b examples are done, also where
workers do not step together.

Baselines are laws over nodes alone, from other fields or of other authors. They know neither
payload nor what nodes exchange: their coefficients hold at one batch per worker. Laws that were
made for a job of fixed size are put so: a job of steps of n·b examples each takes 1/n as many steps
on n nodes, so that its time, and one over its speed, is proportional to t(n)/n.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from nodewise.core.registry import Registry

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
L = TypeVar("L", bound="Law")
Scope = Literal["model", "link", "line"]

TINY = 1e-30
"""Seconds that keep 0/0 away where nothing takes any time."""

_HALF_LINE = np.linspace(0.0, 9.0, 361)


@dataclass(frozen=True)
class Parameter:
    """A coefficient of a law: never below 0, unless it is `signed`.

    `scope` says what shares one value: all curves of a `model` (trained one way), all curves over
    a `link` (one cluster), or nothing (`line`: one batch of one curve). `shrink` is how large the
    coefficient's term is expected to be, as a share of the one-node step: a weak prior at 0 of
    what is seldom there. None: no prior.
    """

    name: str
    unit: str
    scope: Scope
    meaning: str
    shrink: float | None = None
    signed: bool = False


@dataclass(frozen=True)
class At:
    """Where a law is asked: arrays of one shape, or broadcastable.

    `nodes` n ≥ 1, `batch` b examples per worker, `payload` S in bytes.
    """

    nodes: Floats
    batch: Floats
    payload: Floats

    @classmethod
    def of(cls, nodes: ArrayLike, batch: ArrayLike, payload: ArrayLike) -> "At":
        """Return the points as float arrays of one shape.

        Raises:
            ValueError: fewer than one node.
        """
        arrays = np.broadcast_arrays(*(np.asarray(x, float) for x in (nodes, batch, payload)))
        if np.any(arrays[0] < 1):
            raise ValueError("a step needs at least one node")
        return cls(*arrays)


Value = Any
"""A coefficient, or what follows from it: a number, an array to broadcast with points, a tracer."""

Values = Mapping[str, Value]
"""The value of each coefficient, by name."""


class Law(ABC):
    """The step time of a way of training. Structure that is known, not fitted, is a field.

    `title` is what tables and charts call it.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
    parameters: ClassVar[tuple[Parameter, ...]]

    @abstractmethod
    def step_s(self, p: Values, at: At) -> Value:
        """Return step times in seconds, in the broadcast shape of `p` and `at`."""

    def evaluate(self, p: Values, nodes: ArrayLike, batch: ArrayLike, payload: ArrayLike) -> Floats:
        """Return step times in seconds, in the broadcast shape of the arguments."""
        return np.asarray(self.step_s(p, At.of(nodes, batch, payload)), dtype=np.float64)


class _Laws(Registry[type[Law]]):
    def register(self, law: type[L]) -> type[L]:
        """Register a class by its `name`; use as a decorator."""
        self.add(law.name, law)
        return law


LAWS = _Laws("law", "nodewise.predict.laws", "nodewise.laws")
"""The laws by name. Some have fields to give, as `period` of parameter averaging."""


def baselines() -> tuple[str, ...]:
    """Return the names of the laws that know nothing of how nodes exchange anything."""
    return tuple(name for name, law in LAWS.items() if not issubclass(law, PartsLaw))


COMPUTE = (
    Parameter("compute_fixed_s", "s", "model", "c₀: computing per step"),
    Parameter("compute_per_example_s", "s", "model", "c₁: computing per example"),
    Parameter(
        "compute_deviation_s",
        "s",
        "line",
        "d: deviation of computing this batch from c₀ + c₁b",
        shrink=0.10,
        signed=True,
    ),
)
JITTER = (
    Parameter(
        "jitter_s", "s", "model", "σ: jitter (standard deviation) of a node's time", shrink=0.05
    ),
    Parameter(
        "jitter_share",
        "1",
        "link",
        "v: further jitter, relative to the computing time",
        shrink=0.05,
    ),
)
EXCESS_INPUT = Parameter(
    "input_per_example_s",
    "s",
    "model",
    "e: reading an example that another node trains on",
    shrink=0.05,
)
LINK = (
    Parameter("latency_s", "s", "link", "α: latency per message"),
    Parameter("seconds_per_byte", "s/B", "link", "β: inverse bandwidth"),
)
ONE_NODE = Parameter("one_node_s", "s", "line", "a: the step on one node")


class PartsLaw(Law):
    """t = compute + wait + input + communicate: what can be measured apart is told apart.

    compute = c₀ + c₁·b + d. wait = (σ + v·compute)·m_n: the slowest of n nodes, whose times spread
    by σ + v·compute, is expected m_n spreads above their mean (normal order statistics; H. A. David
    and H. N. Nagaraja, Order Statistics, 3rd ed., 2003). input = e·b·(n − 1): what a pipeline that
    is not sharded costs, since each node then reads the examples of all; 0 where it is sharded.
    """

    parameters: ClassVar[tuple[Parameter, ...]] = (*COMPUTE, *JITTER, EXCESS_INPUT, *LINK)

    def compute_s(self, p: Values, at: At) -> Value:
        """Return the seconds that a node computes in a step."""
        line = p["compute_fixed_s"] + p["compute_per_example_s"] * at.batch
        return line + p["compute_deviation_s"]

    def wait_s(self, p: Values, at: At) -> Value:
        """Return the seconds that a step waits for the slowest node."""
        spread = p["jitter_s"] + p["jitter_share"] * self.compute_s(p, at)
        return spread * expected_maximum(at.nodes)

    def input_s(self, p: Values, at: At) -> Value:
        """Return the seconds that a step spends on examples of other nodes."""
        return p["input_per_example_s"] * at.batch * (at.nodes - 1)

    @abstractmethod
    def communicate_s(self, p: Values, at: At) -> Value:
        """Return the seconds that a step exchanges gradients or weights."""

    def step_s(self, p: Values, at: At) -> Value:
        """Return the sum of the parts."""
        parts = self.compute_s(p, at) + self.wait_s(p, at) + self.input_s(p, at)
        return parts + self.communicate_s(p, at)


@dataclass(frozen=True)
class AllReduce(PartsLaw):
    """Gradients are summed over all nodes in every step: compute and communicate, maybe at once.

    With `overlap` γ > 1 they take (computeᵞ + communicateᵞ)^(1/γ) together: their sum at γ = 1, the
    longer of both as γ grows (A. Qiao et al., Pollux, OSDI 2021). The parts remain what each would
    take alone, and then add up to more than the step.
    """

    _: KW_ONLY
    overlap: float = 1.0

    def __post_init__(self) -> None:
        require(self.overlap >= 1, "overlap", "1 or more", self.overlap)

    def step_s(self, p: Values, at: At) -> Value:
        """Return the step time: computing and communicating, waiting, reading."""
        compute, communicate = self.compute_s(p, at), self.communicate_s(p, at)
        both = overlapped(compute, communicate, self.overlap)
        return both + self.wait_s(p, at) + self.input_s(p, at)


def overlapped(a: Value, b: Value, gamma: Value) -> Value:
    """Return (aᵞ + bᵞ)^(1/γ) of two times, at least 0: a + b for γ = 1, near the larger for 10.

    Taken of shares of their sum, as powers of milliseconds leave the range of floats.
    """
    both = a + b + TINY
    return both * ((a / both) ** gamma + (b / both) ** gamma) ** (1 / gamma)


def expected_maximum(nodes: ArrayLike) -> Floats:
    """Return m_n, the mean of the largest of n standard normal values; 0 for n = 1.

    m₂ = 0.564, m₃ = 0.846, m₁₀ = 1.539. √(2 ln n), often used, is far above it for few nodes. It is
    ∫₀^∞ 1 − Φ(x)ⁿ − Φ(−x)ⁿ dx, for real n, too.
    """
    n = np.asarray(nodes, dtype=np.float64)
    return np.array([_expected_maximum(x) for x in n.flat]).reshape(n.shape)


@lru_cache(maxsize=4096)
def _expected_maximum(n: float) -> float:
    above, below = (ndtr(x) ** n for x in (_HALF_LINE, -_HALF_LINE))
    return float(np.trapezoid(1 - above - below, _HALF_LINE))


def require(allowed: bool, name: str, what: str, value: float) -> None:
    """Raise a ValueError that tells what field `name` of a law must be, unless it is allowed."""
    if not allowed:
        raise ValueError(f"{name}: must be {what}, not {value!r}")

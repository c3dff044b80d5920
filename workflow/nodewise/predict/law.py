"""Laws: the time of one training step as a formula of nodes, batch and payload.

A law names its coefficients (with units and what they are shared by) and says what a step takes.
Adding a law is adding one such class. Nothing here knows how coefficients are found; that is
`fit`. Workers that queue at servers are in `servers`; baselines, which know nothing of how nodes
exchange anything, in `baselines`.

n is the number of nodes, b the batch per worker, G = n·b the global batch, S the payload: the
bytes of one gradient. "Step time" is always the time in which n·b examples are done, also where
workers do not step together.

Formulas use operators only (no numpy functions of coefficients), so that the same classes serve
arrays and the tracers of a probabilistic program.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
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
class NoExchange(PartsLaw):
    """communicate = 0: one node, or nodes that do not talk."""

    name: ClassVar[str] = "none"
    title: ClassVar[str] = "No exchange"
    source: ClassVar[str] = "no communication"

    def communicate_s(self, p: Values, at: At) -> Value:
        """Return 0."""
        return 0.0 * at.nodes


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


@dataclass(frozen=True)
class RingAllReduce(AllReduce):
    """communicate = 2(n−1)·α + 2(n−1)/n·S·β: a ring all-reduce of the gradient.

    The ring sends 2(n−1) messages of S/n bytes one after another: n−1 to sum, n−1 to spread.

    Example:
        >>> p = dict.fromkeys((c.name for c in RingAllReduce.parameters), 0.0)
        >>> p |= {"compute_per_example_s": 2e-4, "seconds_per_byte": 1 / 58e6}
        >>> RingAllReduce().evaluate(p, nodes=[1, 2, 3], batch=100, payload=5.8e6).round(3).tolist()
        [0.02, 0.12, 0.153]
    """

    name: ClassVar[str] = "ring"
    title: ClassVar[str] = "Ring all-reduce"
    source: ClassVar[str] = (
        "P. Patarasuk and X. Yuan, Bandwidth optimal all-reduce algorithms for clusters of "
        "workstations, Journal of Parallel and Distributed Computing 69(2), 2009"
    )

    def communicate_s(self, p: Values, at: At) -> Value:
        """Return 2(n−1)·α + 2(n−1)/n·S·β."""
        n = at.nodes
        return 2 * (n - 1) * p["latency_s"] + 2 * (n - 1) / n * at.payload * p["seconds_per_byte"]


@dataclass(frozen=True)
class HalvingDoubling(AllReduce):
    """communicate = 2·log₂n·α + 2(n−1)/n·S·β: recursive halving, then recursive doubling.

    In log₂n rounds each node swaps half of what is left to sum with a partner, S/2, S/4, … bytes;
    in as many the sums come back. Exact for powers of two, a smooth line between them, where
    programs need further rounds.
    """

    name: ClassVar[str] = "halving_doubling"
    title: ClassVar[str] = "Halving-doubling"
    source: ClassVar[str] = (
        "R. Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication "
        "operations in MPICH, International Journal of High Performance Computing Applications "
        "19(1), 2005"
    )

    def communicate_s(self, p: Values, at: At) -> Value:
        """Return 2·log₂n·α + 2(n−1)/n·S·β."""
        sent = 2 * (at.nodes - 1) / at.nodes * at.payload
        return 2 * np.log2(at.nodes) * p["latency_s"] + sent * p["seconds_per_byte"]


@dataclass(frozen=True)
class BinomialTree(AllReduce):
    """communicate = 2·log₂n·(α + S·β): sums go up a binomial tree, and the result down again.

    Every round passes whole gradients on. Exact for powers of two; between them a program takes the
    rounds of the next one.
    """

    name: ClassVar[str] = "tree"
    title: ClassVar[str] = "Binomial tree"
    source: ClassVar[str] = HalvingDoubling.source

    def communicate_s(self, p: Values, at: At) -> Value:
        """Return 2·log₂n·(α + S·β)."""
        return 2 * np.log2(at.nodes) * (p["latency_s"] + at.payload * p["seconds_per_byte"])


@dataclass(frozen=True)
class Star(AllReduce):
    """communicate = 2(n−1)·(α + S·β): one of the nodes, the driver, sums and sends the sum back.

    The n−1 gradients all come over the driver's link, and when they are summed the n−1 sums leave
    over it.
    """

    name: ClassVar[str] = "star"
    title: ClassVar[str] = "Star, one driver"
    source: ClassVar[str] = (
        "P. Moritz, R. Nishihara, I. Stoica and M. I. Jordan, SparkNet: Training deep networks in "
        "Spark, ICLR 2016, arXiv:1511.06051"
    )

    def communicate_s(self, p: Values, at: At) -> Value:
        """Return 2(n−1)·(α + S·β)."""
        return 2 * (at.nodes - 1) * (p["latency_s"] + at.payload * p["seconds_per_byte"])


@dataclass(frozen=True)
class ParameterAveraging(PartsLaw):
    """communicate = (2(n−1)·α + 2(n−1)/n·S·β)/τ: a ring all-reduce of the weights every τ steps.

    Nodes wait for each other only then, `period` τ steps after the last time. If the steps of a
    node are independent, such a spell spreads by √τ times what a step does: a step's share of the
    wait is 1/√τ of the wait in every step. A node that is always slower is not covered by that.
    """

    period: float

    name: ClassVar[str] = "averaging"
    title: ClassVar[str] = "Parameter averaging"
    source: ClassVar[str] = (
        "J. Wang and G. Joshi, Adaptive communication strategies to achieve the best error-runtime "
        "trade-off in local-update SGD, SysML 2019, arXiv:1810.08313"
    )

    def __post_init__(self) -> None:
        require(self.period >= 1, "period", "1 or more", self.period)

    def wait_s(self, p: Values, at: At) -> Value:
        """Return the wait of a step that ends with an exchange, over √τ."""
        return super().wait_s(p, at) / self.period**0.5

    def communicate_s(self, p: Values, at: At) -> Value:
        """Return the ring's seconds, shared out over τ steps."""
        return RingAllReduce().communicate_s(p, at) / self.period


CODEC = Parameter(
    "codec_seconds_per_byte",
    "s/B",
    "link",
    "k: encoding a byte of the gradient, or decoding one of a message",
    shrink=0.10,
)


@dataclass(frozen=True)
class CompressedAllGather(PartsLaw):
    """communicate = k·S·(1 + ρn) + (n−1)·(α + ρ·S·β): everybody sends a coded gradient to all.

    `density` ρ is the size of a coded gradient as a share of S; bytes counted on the wire tell it.
    A node encodes its own S bytes and decodes all n messages, its own as well, so that coding takes
    time on one node, too. k, of processor and codec, is seen in communication on one node, and in
    totals only as far as compute is known.
    """

    density: float

    name: ClassVar[str] = "compressed"
    title: ClassVar[str] = "Compressed all-gather"
    source: ClassVar[str] = (
        "N. Strom, Scalable distributed DNN training using commodity GPU cloud computing, "
        "Interspeech 2015"
    )
    parameters: ClassVar[tuple[Parameter, ...]] = (*PartsLaw.parameters, CODEC)

    def __post_init__(self) -> None:
        require(self.density > 0, "density", "above 0", self.density)

    def communicate_s(self, p: Values, at: At) -> Value:
        """Return k·S·(1 + ρn) + (n−1)·(α + ρ·S·β)."""
        n, coded = at.nodes, self.density * at.payload
        codec = p["codec_seconds_per_byte"] * (at.payload + n * coded)
        return codec + (n - 1) * (p["latency_s"] + coded * p["seconds_per_byte"])


@dataclass(frozen=True)
class GPipe(PartsLaw):
    """t = (m+n−1)·(c₀ + c₁·b/m) + 2(m+n−2)·(α + a·n·b/m·β): n stages, m micro-batches of n·b/m.

    Stages are equal: each computes c₁/n of an example, and c₀ for a micro-batch. Between two stages
    a micro-batch's activations go forward and its gradients back, `activation_bytes` a an example,
    one after the other: the last of m has m−1 before it at the first cut, and n−1 cuts to pass. The
    pipeline fills and empties for n−1 of the m+n−1 turns, its bubble, told as wait. On one node
    nothing is sent. The payload does not matter.
    """

    micro_batches: int
    activation_bytes: float

    name: ClassVar[str] = "gpipe"
    title: ClassVar[str] = "Pipeline (GPipe)"
    source: ClassVar[str] = (
        "Y. Huang et al., GPipe: Efficient training of giant neural networks using pipeline "
        "parallelism, NeurIPS 2019, arXiv:1811.06965, section 2"
    )
    parameters: ClassVar[tuple[Parameter, ...]] = (*COMPUTE, EXCESS_INPUT, *LINK)

    def __post_init__(self) -> None:
        require(self.micro_batches >= 1, "micro_batches", "1 or more", self.micro_batches)
        require(self.activation_bytes >= 0, "activation_bytes", "0 or more", self.activation_bytes)

    def bubble(self, nodes: ArrayLike) -> Floats:
        """Return the share of turns that a stage idles: (n−1)/(m+n−1)."""
        idle = np.asarray(nodes, dtype=np.float64) - 1
        return np.asarray(idle / (self.micro_batches + idle))

    def compute_s(self, p: Values, at: At) -> Value:
        """Return m·c₀ + c₁·b + d, the seconds that a stage computes."""
        return super().compute_s(p, at) + (self.micro_batches - 1) * p["compute_fixed_s"]

    def wait_s(self, p: Values, at: At) -> Value:
        """Return the seconds of computing that a stage idles in the bubble."""
        return (at.nodes - 1) / self.micro_batches * self.compute_s(p, at)

    def communicate_s(self, p: Values, at: At) -> Value:
        """Return 2(m+n−2)·(α + a·n·b/m·β); 0 on one node."""
        messages = 2 * (self.micro_batches + at.nodes - 2) * (at.nodes > 1)
        sent = self.activation_bytes * at.nodes * at.batch / self.micro_batches
        return messages * (p["latency_s"] + sent * p["seconds_per_byte"])


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

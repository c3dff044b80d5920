"""The step time on many devices of a real cluster, from few measured points.

With m devices in each of k nodes, n = m·k, a step of a fixed batch per device takes

    t(n)    = slow(n) + send(n) − h·min(slow(n), send(n))
    slow(n) = c·(1 + u·log2 m + v·log2 k)
    send(n) = 2(m−1)/m·S/W(m) + 2(k−1)/k·S/E(k) + ⌈S/bucket⌉·latencies
    W(m)    = w·B·(m/2)^−a,  E(k) = e·R·(k/2)^−b

c is the time of computing, u and v are what unequal devices and nodes add per doubling, S is the
size of a gradient, B and R are the nominal rates of a device's link within the node and of a node's
link, w and e the shares of them that training achieves, a and b what contention takes from them (a
is 0 behind NVLink's switches, and larger without peer-to-peer, where devices share the way to the
host's memory), and h is the share of the shorter of computing and sending that is hidden behind the
other. At x times the batch of a device, computing takes c·(f + (1 − f)·x): a share f is fixed,
such as updating the weights, and takes at most a tenth of a second. W and E are at most B and R.
What TCP achieves is the hosts' and does not grow with the nominal rate: there, e·R is a rate T
instead, and E at most the payload's share of R. RDMA achieves at least what TCP would.

No cluster has exactly the constants of another. So each constant is a distribution over clusters,
learned from published measurements (`cluster_constants.yaml`, `bench/forecast_constants.py`). The
forecast is by the means of these distributions, its interval by draws of them. c follows from the
measured point on the most devices. Several points weight the draws by how well they meet them; each
draw then meets them on average, and the forecast is the median of the draws.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import numpy as np
from scipy.special import expit

from nodewise.core.errors import UserError
from nodewise.predict.cluster_links import Link, constants
from nodewise.predict.points import Floats

DRAWS = 4000
_FREEDOM = 4.0  # degrees of freedom of Student's t, of log measured times
_OF_ALL = ("hidden", "batch", "devices_differ", "nodes_differ", "latency_within", "latency_between")
_NO_LINK = [[np.inf], [np.inf], [1.0]]
_LEAST_COMPUTE = 0.1  # share of a given step: nobody starts from devices that wait even longer


@dataclass(frozen=True)
class Topology:
    """Nodes of equal devices. A link that no message takes may be None."""

    devices_per_node: int
    within: Link | None
    between: Link | None

    def layout(self, devices: int) -> tuple[int, int]:
        """Return the devices in each node, and the nodes, of a number of devices."""
        return min(devices, self.devices_per_node), ceil(devices / self.devices_per_node)


@dataclass(frozen=True)
class Training:
    """What each device trains and exchanges in a step, and what was measured of it.

    Attributes:
        parameters: number of the model's trained parameters; None if unknown.
        bytes_each: bytes in which a parameter's gradient may travel, equally likely.
        batch: examples per device; None if unknown.
        traffic: bytes relative to a ring all-reduce: 1.5 if parameters are gathered as well.
        hidden: the share h, if it is known of the software.
        measured: examples per second by number of devices.
        scatter: how far these may be off: standard deviation of their logarithm.
        cautions: notes on them, or why they may mislead, in words; empty if there are none.
        devices_per_node: devices in each node, if the file of the measured points says so.
        input_share: share of a step that the worker that waited longest waited for its batch, if a
            record says so. The others wait for that worker, and meanwhile their input arrives.
        strong: whether the measured points share a global batch: `batch` is on the most devices.
    """

    parameters: float | None
    bytes_each: tuple[float, ...] = (4.0,)
    batch: float | None = None
    traffic: float = 1.0
    hidden: float | None = None
    measured: Mapping[int, float] = field(default_factory=dict)
    scatter: float = 0.0
    cautions: str = ""
    devices_per_node: int | None = None
    input_share: float | None = None
    strong: bool = False

    def batch_on(self, devices: int) -> float:
        """Return the batch of a device if the measured scaling goes on; one example if unknown."""
        return (self.batch or 1.0) * (max(self.measured) / devices if self.strong else 1.0)


class Draws:
    """Draws of the constants of a cluster for one training. Arrays have shape (1 + DRAWS,).

    The first draw has the mean of each constant.

    Attributes:
        constants: each constant, as `cluster_constants.yaml` has it, by its name.
        batch: examples per device and step.
        hidden: the share h.
        noise: the logarithm of what a measured step time is off.

    Raises:
        UserError: the number of parameters is unknown.
    """

    def __init__(
        self, cluster: Topology, training: Training, known: Mapping[str, Any] | None = None
    ) -> None:
        if training.parameters is None:
            raise UserError("needs --parameters, the number that is trained")
        self._known, self._layout = known or constants(), cluster.layout
        self._measured = training.measured
        self._random, self.constants = np.random.default_rng(0), dict[str, Floats]()
        each = self._one_of(np.array(training.bytes_each)[:, None])
        self._payload = training.parameters * training.traffic * each
        drawn, always = {name: self._draw(name) for name in _OF_ALL}, np.ones(1 + DRAWS)
        known_hidden, known_batch = training.hidden, training.batch
        self.hidden = expit(drawn["hidden"]) if known_hidden is None else known_hidden * always
        self.batch = np.exp(drawn["batch"]) if known_batch is None else known_batch * always
        # Rows are those of the links: within a node and between nodes.
        self._differ = np.exp([drawn["devices_differ"], drawn["nodes_differ"]])
        self._latency_s = np.exp([drawn["latency_within"], drawn["latency_between"]])
        rates = self._rates("within", cluster.within), self._rates("between", cluster.between)
        self._achieved, self._limit, self._kept = np.swapaxes(rates, 0, 1)
        self.noise = self._known["noise"] * np.append(0, self._random.standard_t(_FREEDOM, DRAWS))
        self._fixed = expit(self._draw("batch_fixed"))

    def _draw(self, name: str) -> Floats:
        mean, deviation = self._known["clusters"][name]
        chance = np.append(0, self._random.standard_normal(DRAWS))
        self.constants[name] = np.asarray(mean + deviation * chance)
        return self.constants[name]

    def _one_of(self, ways: Floats) -> Floats:
        """Choose one of equally likely ways for each draw, and their geometric mean for the first.

        The ways have shape (ways, …, 1 + draws or 1).
        """
        chosen = np.choose(self._random.integers(len(ways), size=1 + DRAWS), ways)
        chosen[..., 0] = np.exp(np.log(ways[..., 0]).mean(axis=0))
        return np.asarray(chosen)

    def _rates(self, level: str, link: Link | None) -> Floats:
        """Return what two partners achieve, its limit, and the share kept per doubling of partners.

        Rates are in bytes per second, infinite without a link. The shape is (3, 1 + draws).
        """
        ways: list[Any] = []
        tcp = 1e9 * np.exp(self._draw("tcp")) if level == "between" else 0.0
        for family, nominal in (link or {}).items():
            tcp_limit = self._known["tcp_share"] * nominal
            limit = tcp_limit if family == "tcp" else nominal
            achieved = tcp if family == "tcp" else np.exp(self._draw(family)) * nominal
            if family == "rdma":
                achieved = np.maximum(achieved, np.minimum(tcp, tcp_limit))
            power = self._draw("contention_no_p2p" if family == "no_p2p" else f"contention_{level}")
            if family == "nvlink" and nominal >= self._known["switched"]:
                power = np.zeros_like(power)
            ways.append([achieved, np.full_like(achieved, limit), 0.5**power])
        return self._one_of(np.array(ways or [_NO_LINK]))

    def parts(self, layout: tuple[int, int]) -> tuple[Floats, Floats, Floats]:
        """Return what a step on a layout (see `Topology`) consists of, without what is hidden.

        Returns:
            slow(n)/c, (1 + draws); the seconds of sending bytes within a node and between nodes,
            (2, 1 + draws); and the seconds of latencies, (1 + draws).
        """
        counts = np.array(layout, float)[:, None]
        slower = 1 + (self._differ * np.log2(counts)).sum(axis=0)
        rates = np.minimum(self._achieved * self._kept ** np.log2(counts / 2), self._limit)
        messages = np.ceil(self._payload / self._known["bucket_bytes"]) * (counts > 1)
        sent = 2 * (1 - 1 / counts) * self._payload / rates
        return slower, sent, (messages * self._latency_s).sum(axis=0)

    def steps_s(self, compute_s: Floats, devices: int, batch: float = 1.0) -> Floats:
        """Return the step times on a number of devices, at `batch` times that of `compute_s`."""
        slower, sent, latencies = self.parts(self._layout(devices))
        send = sent.sum(axis=0) + latencies
        fixed = np.minimum(self._fixed, self._known["most_fixed_s"] / compute_s)
        slow = slower * compute_s * (fixed + (1 - fixed) * batch)
        return np.asarray(slow + send - self.hidden * np.minimum(slow, send))

    def compute_s(self, layout: tuple[int, int], step_s: Floats) -> Floats:
        """Return the time of computing with which steps on a layout take `step_s`."""
        slower, sent, latencies = self.parts(layout)
        send, seen = sent.sum(axis=0) + latencies, 1 - self.hidden
        longer = step_s > send * (1 + seen)  # computing takes longer than sending
        slow = np.where(longer, step_s - send * seen, (step_s - send) / seen)
        return np.asarray(np.clip(slow / slower, _LEAST_COMPUTE * step_s, step_s))

    def log_rates(self, devices: Sequence[int], batches: Sequence[float]) -> Floats:
        """Return logarithms of throughputs on numbers of devices, (1 + draws, numbers).

        They follow from the measured point on the most devices. Where sending alone takes longer
        than its step, they begin at that step. `batches` are those of a device, relative to its.
        """
        first, rate = max(self._measured.items())
        compute_s = self.compute_s(self._layout(first), first * self.batch / rate)
        base = rate * self.steps_s(compute_s, first) / first
        asked = zip(devices, batches, strict=True)
        return np.log([base * n * b / self.steps_s(compute_s, n, b) for n, b in asked]).T


def forecast_throughputs(
    cluster: Topology,
    training: Training,
    devices: Sequence[int],
    known: Mapping[str, Any] | None = None,
    *,
    batches: Sequence[float] | None = None,
) -> Floats:
    """Return throughputs on numbers of devices, (1 + DRAWS, numbers).

    The first row is the forecast, the others are equally likely. A measured throughput is off by
    the scatter of the measurement only.

    The constants are the `known` ones; by default those of the package. `batches` are those of a
    device on each number of devices; default: as measured.
    """
    draws, points = Draws(cluster, training, known), training.measured
    size, own = training.batch or 1.0, [training.batch_on(n) for n in devices]
    found = draws.log_rates(devices, [b / size for b in batches or own])
    if len(points) > 1:
        given = [training.batch_on(n) / size for n in points]
        misses = draws.log_rates([*points], given) - np.log([*points.values()])
        weights = draw_weights(misses[1:].T)
        places = (np.arange(DRAWS) + 0.5) / DRAWS
        chosen = 1 + np.searchsorted(np.cumsum(weights), places).clip(max=DRAWS - 1)
        drawn = (found - misses.mean(axis=1, keepdims=True))[chosen]
        found = np.vstack([np.median(drawn, axis=0), drawn])
    same = np.isin(devices, [*points]) & np.isclose(batches or own, own)
    exact = np.array([points.get(count, np.nan) for count in devices])
    rates = np.where(same, exact, np.exp(found + draws.noise[:, None]))
    rates[1:] *= np.exp(training.scatter * np.random.default_rng(1).standard_normal((DRAWS, 1)))
    return np.asarray(rates)


def draw_weights(misses: Floats, prior: Floats | float = 1.0, least: float = 50.0) -> Floats:
    """Return how well each draw meets measured points, (…, draws); the sum is 1.

    Logarithms of measured values are distributed as Student's t. If few draws meet the points, the
    points are trusted less.

    `misses` are logs of predicted over measured values, (…, points, draws), `prior` says how
    frequent each draw is, and `least` is the least effective number of draws.
    """
    noise = constants()["noise"]
    while True:
        each = np.log1p((misses / noise) ** 2 / _FREEDOM)
        logs = -(_FREEDOM + 1) / 2 * each.sum(axis=-2)
        weights = prior * np.exp(logs - logs.max())
        weights /= weights.sum()
        if 1 / (weights**2).sum() >= least:
            return np.asarray(weights)
        noise *= 1.5

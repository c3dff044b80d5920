"""Causes of extra time on many devices: what each adds to a step.

A step consists of computing, of what is usual on such a cluster (`cluster_steps`: bytes, messages,
unequal devices), and of what one more cause adds. The size of a cause is not known beforehand, so
it is drawn from a distribution that covers what such causes do in practice.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil

import numpy as np

from nodewise.predict.cluster_steps import DRAWS, Cluster, Draws, Training
from nodewise.predict.points import Floats
from nodewise.predict.posted_numbers import Posted

BYTES, MESSAGES, STRAGGLERS = "exchange by bytes", "exchange by messages", "stragglers"
INPUT, SERVERS, SPARSE = "input", "servers", "sparse gradients gathered"
LINK, NO_OVERLAP = "wrong interface or transport", "no overlap"
SHORT, CORES, LOGGING = "steps too short", "too few cores", "synchronisation in each step"
CONFUSED, WHOLE = "weak and strong scaling confused", "data not sharded"
ALONE = "only one device used"
EXCHANGE = (BYTES, MESSAGES, LINK, SERVERS, SPARSE, NO_OVERLAP, STRAGGLERS)

FREQUENT: Mapping[str, float] = {
    BYTES: 0.35, LINK: 0.12, INPUT: 0.12, MESSAGES: 0.08, SERVERS: 0.08, SHORT: 0.06, WHOLE: 0.06,
    CORES: 0.05, STRAGGLERS: 0.05, NO_OVERLAP: 0.04, LOGGING: 0.04, SPARSE: 0.03, ALONE: 0.03,
}  # fmt: skip
"""How frequent each cause is, before anything is measured. `BYTES` includes all that is usual."""

TYPICAL_PARAMETERS = 25e6  # where they are not known, with a scatter of 1.5 of the logarithm
_MOST_MISREAD = 0.7  # efficiency from which on step times that hardly change may be misread
_USUAL_WAIT = 0.05  # per doubling; on published clusters that lost more, the cause is not known
_INPUT_RATE = (1500.0, 1.2)  # median examples/s of a node's input, and scatter of its logarithm
_SATURATED = 0.3  # how often the reference already waits for input, if the rate is not known
_SHARED_STORAGE = 0.25  # how often all nodes read from one source, if input is the limit
_COULD_HIDE = 0.9  # of the shorter of computing and sending
_HALVINGS = 40  # of the interval of the time of computing, which begins with a factor of 1000


@dataclass(frozen=True)
class Setup:
    """What is known of a training that does not scale.

    Attributes:
        posted: measured numbers by devices; the first is the reference, the last in question.
        cluster: nodes and links.
        training: what is trained; `TYPICAL_PARAMETERS` if the gradient's size is not known.
        payload_known, link_known: whether the gradient's size and the link in question were given.
        strong: whether all devices share a constant batch; None if unknown.
        synthetic, no_sync: the last number again, without input or without exchange.
        servers: number of servers that sum gradients; 0: all-reduce; -1: some; None: unknown.
        tensors: number of gradients, if known.
        cores: cores of a machine, if known.
        embedding: whether the model has one: its gradient may be sparse, and its input is small.
        on_cpu: whether the devices are CPUs, so that computing takes all cores.
        accumulate: steps per exchange.
        epoch_steps: steps of an epoch on the reference, if known.
        one_nodes: nodes of the reference; None: as `cluster` says.
    """

    posted: tuple[Posted, ...]
    cluster: Cluster
    training: Training
    payload_known: bool = True
    link_known: bool = True
    strong: bool | None = None
    synthetic: Posted | None = None
    no_sync: Posted | None = None
    servers: int | None = None
    tensors: int | None = None
    cores: float | None = None
    embedding: bool = False
    on_cpu: bool = False
    accumulate: int = 1
    epoch_steps: float | None = None
    one_nodes: int | None = None

    def layout(self, devices: int, *, reference: bool = False) -> tuple[int, int]:
        """Return the devices in each node, and the nodes, of a number of devices."""
        if reference and self.one_nodes:
            return ceil(devices / self.one_nodes), self.one_nodes
        per_node = self.cluster.devices_per_node
        return min(devices, per_node), ceil(devices / per_node)

    @property
    def no_network(self) -> bool:
        """Whether the reference and the number in question run on the same devices."""
        one, many = self.posted[0].devices, self.posted[-1].devices
        return one == many and self.layout(one, reference=True) == self.layout(many)

    @property
    def efficiency(self) -> float:
        """Examples per second and device, relative to the reference."""
        first, last = self.posted[0], self.posted[-1]
        gain = last.value / first.value if first.rises else first.value / last.value
        steps_grow = first.counts_steps and not self.strong
        return gain if steps_grow else gain * first.devices / last.devices

    @property
    def misread(self) -> bool:
        """Whether step times that hardly change may be taken for no gain."""
        first = self.posted[0]
        several = self.posted[-1].devices > first.devices
        counts = first.counts_steps and not self.strong
        return several and counts and self.efficiency >= _MOST_MISREAD

    def frequent(self) -> dict[str, float]:
        """Return how frequent each cause is that is possible here; the sum is not 1."""
        if self.no_network:
            return {name: FREQUENT[name] for name in (CORES, LOGGING, SHORT)}
        left = dict(FREQUENT)
        left[LINK] *= 1.0 if self.link_known else 0.3
        left[SPARSE] *= 5.0 if self.embedding else 1.0
        left[INPUT] *= 0.4 if self.embedding else 1.0
        absent = {SERVERS} if self.servers == 0 else set()
        if self.servers:
            left[SERVERS] += left[BYTES] + left[LINK]
            absent = {BYTES, LINK, NO_OVERLAP, SPARSE}
        absent |= {WHOLE} if self.posted[0].clock != "epoch_time_s" else set()
        absent |= {ALONE} if self.posted[0].devices > 1 else set()
        if self.misread:
            others = 0.6 if self.strong is None else 0.0
            left = {name: others * share for name, share in left.items()}
            left |= {CONFUSED: 1.0, ALONE: 0.25}
        return {name: share for name, share in left.items() if share and name not in absent}


@dataclass(frozen=True)
class Change:
    """What a remedy changes.

    Attributes:
        batch: factor of the examples per device and step.
        link: factor of the time that bytes take, other than in the wrong interface.
        payload: factor of the bytes of a gradient.
        exchanges: factor of the exchanges per step.
        without: a cause that is removed.
        servers: number of servers; None: as many as now.
        devices: number of devices; None: as many as now.
    """

    batch: float = 1.0
    link: float = 1.0
    payload: float = 1.0
    exchanges: float = 1.0
    without: str = ""
    servers: int | None = None
    devices: int | None = None


@dataclass(frozen=True)
class _Step:
    """A step before a cause is added.

    Attributes:
        devices, inside, nodes: all devices, those in each node, and the nodes.
        expected: examples of a device that were expected, relative to the reference's.
        compute: seconds of computing, (1 + DRAWS,).
        question: seconds of bytes on the link in question, (1 + DRAWS,).
        within, between: seconds of bytes within a node and between nodes, (1 + DRAWS,).
        change: what a remedy changes.
    """

    devices: int
    inside: int
    nodes: int
    expected: float
    compute: Floats
    question: Floats
    within: Floats
    between: Floats
    change: Change


class Steps:
    """Draws of the parts of a step under each cause. Arrays are (1 + DRAWS,)."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.draws = Draws(setup.cluster, setup.training)
        random = np.random.default_rng(1)
        self.size, self.other, first, payload = random.standard_normal((4, 1 + DRAWS))
        self.share, self.chance, self.storage = random.random((3, 1 + DRAWS))
        self._payload = 1.0 if setup.payload_known else np.exp(1.5 * payload)
        self._scatter = np.exp(first)

    @cached_property
    def first_s(self) -> Floats:
        """The seconds of a step on the reference."""
        first, steps = self.setup.posted[0], self.setup.epoch_steps
        if first.clock == "epoch_time_s":
            return np.full(1 + DRAWS, first.value / steps) if steps else 0.2 * self._scatter
        batch = np.ones(1 + DRAWS) if first.counts_steps else self.draws.batch
        return np.asarray(first.step_s(1.0) * batch)

    @cached_property
    def input_rate(self) -> Floats:
        """What the source of the reference can deliver, relative to what it delivers."""
        first, last, batch = self.setup.posted[0], self.setup.posted[-1], self.setup.training.batch
        if first.clock == "samples_per_s" or (first.counts_steps and batch):
            delivers = first.devices * (batch or 1.0) / first.step_s(batch or 1.0)
            if not self.setup.embedding:
                rate = _INPUT_RATE[0] * np.exp(_INPUT_RATE[1] * self.other)
                return np.asarray(np.maximum(1.0, rate / delivers))
        grows = np.where(self.chance < _SATURATED, 0.0, self.share)
        return np.asarray((last.devices / first.devices) ** grows)

    def work(self, devices: int) -> float:
        """Return the examples of a device in a step that were expected, of the reference's."""
        strong = self.setup.strong or self.setup.misread
        return self.setup.posted[0].devices / devices if strong else 1.0

    def measured(self, posted: Posted) -> float:
        """Return a measured step time, relative to the reference."""
        first = self.setup.posted[0]
        ratio = first.value / posted.value if posted.rises else posted.value / first.value
        grown = self.work(posted.devices) * posted.devices / first.devices
        return ratio if first.counts_steps else ratio * grown

    def compute_s(self, cause: str) -> Floats:
        """Return the time of computing on the reference that meets its measured step."""
        low, high = 1e-3 * self.first_s, self.first_s
        for _ in range(_HALVINGS):
            middle = np.sqrt(low * high)
            parts = self.parts(cause, middle, self.setup.posted[0].devices, reference=True)
            parts.pop(INPUT, None)
            below = np.sum(list(parts.values()), axis=0) < self.first_s
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        waits_for_input = (cause == INPUT) & (self.input_rate == 1)
        return np.asarray(high * np.where(waits_for_input, 0.5 + 0.5 * self.share, 1.0))

    def parts(
        self,
        cause: str,
        compute_s: Floats,
        devices: int,
        change: Change | None = None,
        *,
        reference: bool = False,
    ) -> dict[str, Floats]:
        """Return the seconds of a step by cause; "compute" is what computing takes if it scales.

        Args:
            cause: what happens besides what is usual.
            compute_s: time of computing on the reference.
            devices: number of devices.
            change: what a remedy changes.
            reference: whether this is the reference. A cause spares it on one device, or if the
                number in question is of the same devices.
        """
        change, expected = change or Change(), self.work(devices)
        removed = change.without == cause
        if cause == ALONE:
            all_work = (
                compute_s * change.batch * (1.0 if self.setup.misread else expected * devices)
            )
            scaled = all_work / devices
            return {"compute": scaled, ALONE: (all_work - scaled) * (0.0 if removed else 1.0)}
        step, slow, latencies = self._usual(compute_s, devices, change, cause, reference=reference)
        bytes_s = (step.within + step.between) * change.link
        kept = np.full(1 + DRAWS, 0.0 if cause == SERVERS else 1.0)
        if cause not in (SERVERS, NO_OVERLAP):
            send = np.maximum(bytes_s + latencies, 1e-12)
            kept -= self.draws.hidden * np.minimum(slow, send) / send
        found = {"compute": step.compute, STRAGGLERS: slow - step.compute}
        found |= {BYTES: bytes_s * kept, MESSAGES: latencies * kept}
        if cause == NO_OVERLAP:
            could_hide = np.minimum(slow, bytes_s) * _COULD_HIDE
            found |= {BYTES: bytes_s - could_hide, NO_OVERLAP: could_hide * (not removed)}
        spared = reference and (devices == 1 or self.setup.no_network)
        if cause in _ADDED and not spared and not removed:
            found[cause] = found.get(cause, 0.0) + _ADDED[cause](self, step)
        total = np.sum(list(found.values()), axis=0)
        if cause == INPUT and not removed:
            found[INPUT] = self._input(step, total)
        if cause == WHOLE and not removed:
            found[WHOLE] = (devices / self.setup.posted[0].devices - 1) * total
        if cause == CONFUSED:
            found |= {"compute": step.compute * expected, CONFUSED: step.compute * (1 - expected)}
        return found

    def _usual(
        self, compute_s: Floats, devices: int, change: Change, cause: str, *, reference: bool
    ) -> tuple[_Step, Floats, Floats]:
        """Return a step, its time with usual waiting, and the seconds of latencies."""
        inside, nodes = self.setup.layout(devices, reference=reference)
        slow, sent, latencies = self.draws.parts(inside, nodes)
        slow = np.minimum(slow, 1 + _USUAL_WAIT * np.log2(devices))
        exchanges, expected = change.exchanges / self.setup.accumulate, self.work(devices)
        compute = compute_s * change.batch * (1.0 if cause == CONFUSED else expected)
        within, between = sent * self._payload * change.payload * exchanges
        _, all_nodes = self.setup.layout(self.setup.posted[-1].devices)
        question = between if all_nodes > 1 else within
        step = _Step(devices, inside, nodes, expected, compute, question, within, between, change)
        return step, compute * slow, latencies * exchanges

    def _input(self, step: _Step, busy: Floats) -> Floats:
        """Return what a step waits for input from a source that devices or nodes share."""
        one = self.setup.posted[0].devices
        sources = step.nodes / self.setup.layout(one, reference=True)[1]
        rate = self.input_rate * np.where(self.storage < _SHARED_STORAGE, 1.0, sources)
        examples = step.devices * step.expected * step.change.batch / one
        return np.asarray(np.maximum(0.0, self.first_s * examples / rate - busy))


def _messages(steps: Steps, step: _Step) -> Floats:
    """Each gradient is a message of its own, of 0.1 ms in a node and 0.5 ms between nodes."""
    tensors = steps.setup.tensors or 100 * np.exp(0.8 * steps.other)
    latency = (0.5e-3 if step.nodes > 1 else 0.1e-3) * np.exp(steps.size)
    exchanges = step.change.exchanges / steps.setup.accumulate
    return np.asarray(tensors * latency * np.log2(2 * step.devices) / 2 * exchanges)


def _servers(steps: Steps, step: _Step) -> Floats:
    """The port of each server carries the gradients and parameters of all that send to it."""
    senders = np.where(steps.other > 0, step.devices, max(step.nodes, 2))
    some = np.where(steps.chance < 0.5, 1, np.where(steps.chance < 0.75, 2, senders))
    known = step.change.servers or max(steps.setup.servers or 0, 0)
    servers = np.minimum(known or some, senders)
    count = step.nodes if step.nodes > 1 else step.inside
    once = step.question * step.change.link / (2 * (1 - 1 / max(count, 2)))
    return np.asarray(once * senders / servers * (1 + steps.share))


def _sparse(steps: Steps, step: _Step) -> Floats:
    """Every device receives the rows of the gradient of every other: n − 1 times a ring's S/W."""
    received = step.within * step.inside / 2 + step.between * step.nodes * step.inside / 2
    return np.asarray(received * step.change.link * np.exp(steps.size - 1.5))


def _short(steps: Steps, step: _Step) -> Floats:
    """Some ms of each step, or a share of the reference's, do not shrink with its examples."""
    whole = step.compute / step.expected / step.change.batch
    return np.asarray(5e-3 * np.exp(0.8 * steps.size) + whole * steps.share * (1 - step.expected))


def _cores(steps: Steps, step: _Step) -> Floats:
    """Processes share the cores of a machine. CPUs also wait for the slowest core."""
    if steps.setup.on_cpu:
        shared = (step.inside - 1) * steps.share
        return np.asarray(step.compute * (shared + np.exp(0.7 * steps.size)))
    need = 2 * step.inside * np.exp(0.8 * steps.size)
    cores = steps.setup.cores or 16 * np.exp(0.7 * steps.other)
    return np.asarray(step.compute * np.maximum(0, need / cores - 1))


_ADDED: Mapping[str, Callable[[Steps, _Step], Floats]] = {
    MESSAGES: _messages,
    SERVERS: _servers,
    SPARSE: _sparse,
    SHORT: _short,
    CORES: _cores,
    # The link in use is 3 to 100 times slower than the one that is there.
    LINK: lambda steps, step: step.question * (3 * 33**steps.share - 1),
    STRAGGLERS: lambda steps, step: (
        0.12 * np.exp(0.8 * steps.size) * np.log2(step.devices) * step.compute
    ),
    LOGGING: lambda steps, step: 0.3 * np.exp(steps.size) * step.compute,
}

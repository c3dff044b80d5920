"""Causes of extra time on many devices: what each adds to a step.

A step consists of computing, of what is usual on such a cluster (`cluster_steps`: bytes, messages,
unequal devices), and of what one more cause adds. The size of a cause is not known beforehand, so
it is drawn from a distribution that covers what such causes do in practice.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

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
ABSENT: Mapping[str, tuple[str, ...]] = {
    "synthetic": (INPUT,),
    "no-sync": (BYTES, MESSAGES, LINK, SERVERS, SPARSE, NO_OVERLAP, STRAGGLERS),
}
"""Controlled runs, and the causes that they are free of."""

NORMAL = 0.85
"""Scaling with this efficiency is normal."""
TYPICAL_PARAMETERS = 25e6  # where they are not known, with a scatter of 1.5 of the logarithm
_MOST_MISREAD = 0.7  # efficiency from which on step times that hardly change may be misread
_USUAL_WAIT = 0.05  # per doubling; on published clusters that lost more, the cause is not known
_SATURATED = 0.3  # how often the reference already waits for input
_SHARED_STORAGE = 0.25  # how often all nodes read from one source, if input is the limit
_COULD_HIDE = 0.9  # of the shorter of computing and sending
_ITERATIONS = 30  # until the time of computing has converged


class Cause(NamedTuple):
    """What is known of a cause before anything is measured.

    Attributes:
        frequent: how frequent it is. `BYTES` includes all that is usual.
        measure: names of the measurements that show it, the best first.
        remedy: what removes it.
    """

    frequent: float
    measure: tuple[str, ...]
    remedy: str = ""


CAUSES: Mapping[str, Cause] = {
    BYTES: Cause(0.35, ("payload", "no-sync", "node")),
    LINK: Cause(
        0.12,
        ("link", "payload"),
        "use the link that is there (NCCL_SOCKET_IFNAME, RDMA drivers, peer-to-peer)",
    ),
    INPUT: Cause(0.12, ("synthetic",), "an input that is not the limit"),
    MESSAGES: Cause(0.12, ("payload", "trace")),
    SERVERS: Cause(0.08, ("sums", "trace"), "all-reduce in place of servers"),
    SHORT: Cause(0.06, ("trace",)),
    WHOLE: Cause(0.06, ("epoch",), "give each device its own part of the data"),
    CORES: Cause(0.05, ("cores", "trace"), "enough cores for each process"),
    STRAGGLERS: Cause(0.05, ("no-sync", "trace"), "equal devices that do not wait"),
    NO_OVERLAP: Cause(0.04, ("link", "no-sync"), "exchange while computing"),
    LOGGING: Cause(0.04, ("trace",), "synchronise and log rarely"),
    SPARSE: Cause(0.03, ("third", "trace"), "sum sparse gradients densely"),
    ALONE: Cause(0.03, ("batch",), "use all devices"),
    CONFUSED: Cause(0.0, ("batch",)),
}


@dataclass(frozen=True)
class Setup:
    """What is known of a training that does not scale.

    Attributes:
        posted: measured numbers by devices; the first is the reference, the last in question.
        cluster: nodes and links.
        training: what is trained; `TYPICAL_PARAMETERS` if the gradient's size is not known.
        payload_known, link_known: whether the gradient's size and the link in question were given.
        strong: whether all devices share a constant batch; None if unknown.
        controls: the last number again, without input or without exchange; keys of `ABSENT`.
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
    controls: Mapping[str, Posted] = field(default_factory=dict)
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

    def examples(self, devices: int) -> float:
        """Return the examples of a device in a step, relative to the reference's."""
        return self.posted[0].devices / devices if self.strong else 1.0

    def measured(self, posted: Posted) -> float:
        """Return a measured step time, relative to the reference."""
        first = self.posted[0]
        if first.times_steps:
            return posted.value / first.value
        ratio = first.value / posted.value if posted.rises else posted.value / first.value
        return ratio * self.examples(posted.devices) * posted.devices / first.devices

    @property
    def efficiency(self) -> float:
        """Examples per second and device, relative to the reference."""
        last = self.posted[-1]
        return self.examples(last.devices) / self.measured(last)

    @property
    def link_measured(self) -> bool:
        """Whether the link in question was measured, so that it is the one in use."""
        cluster, nodes = self.cluster, self.layout(self.posted[-1].devices)[1]
        link = cluster.between if nodes > 1 else cluster.within
        measured = ("calibrated", "all_reduces")
        return link is not None and all(family in measured for family, _ in link.ways)

    @property
    def examples_known(self) -> bool:
        """Whether it is known how many examples each number counts."""
        return not self.posted[0].times_steps or self.strong is not None

    @property
    def misread(self) -> bool:
        """Whether scaling is, or may be, good: step times that hardly change look like no gain."""
        least = NORMAL if self.examples_known else _MOST_MISREAD
        several = self.posted[-1].devices > self.posted[0].devices
        return several and not self.strong and self.efficiency >= least

    def frequent(self) -> dict[str, float]:
        """Return how frequent each cause is that is possible here; the sum is not 1."""
        frequent = {name: cause.frequent for name, cause in CAUSES.items()}
        if self.no_network:
            return {name: frequent[name] for name in (CORES, LOGGING, SHORT)}
        frequent[LINK] *= 0.0 if self.link_measured else 1.0 if self.link_known else 0.3
        frequent[SPARSE] *= 5.0 if self.embedding else 1.0
        frequent[INPUT] *= 0.4 if self.embedding else 1.0
        absent = {SERVERS} if self.servers == 0 else set()
        if self.servers:
            frequent[SERVERS] += frequent[BYTES] + frequent[LINK]
            absent = {BYTES, LINK, NO_OVERLAP, SPARSE}
        absent |= {WHOLE} if self.posted[0].clock != "epoch_time_s" else set()
        absent |= {ALONE} if self.posted[0].devices > 1 else set()
        if self.misread:
            others = 0.0 if self.examples_known else 0.6
            frequent = {name: others * share for name, share in frequent.items()}
            frequent |= {CONFUSED: 1.0, ALONE: 0.25}
        return {name: share for name, share in frequent.items() if share and name not in absent}


class _Step(NamedTuple):
    """A step with what is usual. Arrays are (1 + DRAWS,).

    Attributes:
        devices, inside, nodes: all devices, those in each node, and the nodes.
        expected: examples of a device that were expected, relative to the reference's.
        slow: seconds of computing with usual waiting.
        bytes_s: seconds of all bytes, if none were hidden.
        question: seconds of the bytes on the link in question.
        parts: seconds by cause; "compute" is what computing takes if it scales.
    """

    devices: int
    inside: int
    nodes: int
    expected: float
    slow: Floats
    bytes_s: Floats
    question: Floats
    parts: dict[str, Floats]

    @property
    def compute(self) -> Floats:
        """The seconds of computing without waiting."""
        return self.parts["compute"]

    @property
    def total(self) -> Floats:
        """The seconds of all parts."""
        return total(self.parts)


def total(parts: Mapping[str, Floats], absent: tuple[str, ...] = ()) -> Floats:
    """Return the seconds of all parts of a step but the absent ones."""
    return np.asarray(np.sum([x for name, x in parts.items() if name not in absent], axis=0))


class Steps:
    """Draws of the parts of a step under each cause. Arrays are (1 + DRAWS,)."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.draws = Draws(setup.cluster, setup.training)
        random = np.random.default_rng(1)
        self.size, self.other, first, payload = random.standard_normal((4, 1 + DRAWS))
        self.share, self.chance, self.storage = random.random((3, 1 + DRAWS))
        self._payload = 1.0 if setup.payload_known else np.exp(1.5 * payload)
        reference, steps = setup.posted[0], setup.epoch_steps
        if reference.clock != "epoch_time_s":
            first_s = reference.step_s(1.0) * (self.draws.batch if reference.rises else 1.0)
        else:
            first_s = reference.value / steps if steps else 0.2 * np.exp(first)
        self.first_s = np.full(1 + DRAWS, first_s)  # seconds of a step on the reference

    def compute_s(self, cause: str) -> Floats:
        """Return the time of computing on the reference that meets its measured step."""
        compute_s = self.first_s
        for _ in range(_ITERATIONS):
            parts = self.parts(cause, compute_s, self.setup.posted[0].devices, reference=True)
            parts.pop(INPUT, None)
            fits = compute_s * self.first_s / total(parts)
            compute_s = np.clip(fits, 1e-3 * self.first_s, self.first_s)
        waits_for_input = (cause == INPUT) & (self.chance < _SATURATED)
        return np.asarray(compute_s * np.where(waits_for_input, 0.5 + 0.5 * self.share, 1.0))

    def parts(
        self,
        cause: str,
        compute_s: Floats,
        devices: int,
        *,
        reference: bool = False,
    ) -> dict[str, Floats]:
        """Return the seconds of a step by cause; "compute" is what computing takes if it scales.

        Args:
            cause: what happens besides what is usual.
            compute_s: time of computing on the reference.
            devices: number of devices.
            reference: whether this is the reference. A cause spares it on one device, or if the
                number in question is of the same devices.
        """
        step = self._usual(compute_s, devices, reference=reference)
        spared = reference and (devices == 1 or self.setup.no_network) and cause != INPUT
        if cause == BYTES or spared:
            return step.parts
        added = _ADDED[cause](self, step)
        return step.parts | (added if isinstance(added, dict) else {cause: added})

    def _usual(self, compute_s: Floats, devices: int, *, reference: bool) -> _Step:
        """Return a step with what is usual on such a cluster."""
        inside, nodes = self.setup.layout(devices, reference=reference)
        slower, sent, latencies = self.draws.parts(inside, nodes)
        misread, first = self.setup.misread, self.setup.posted[0].devices
        expected = first / devices if misread else self.setup.examples(devices)
        compute = compute_s * expected
        slow = compute * np.minimum(slower, 1 + _USUAL_WAIT * np.log2(devices))
        sent *= self._payload / self.setup.accumulate
        latencies /= self.setup.accumulate
        several_nodes = self.setup.layout(self.setup.posted[-1].devices)[1] > 1
        bytes_s, question = sent.sum(axis=0), sent[1 if several_nodes else 0]
        send = np.maximum(bytes_s + latencies, 1e-12)
        seen = 1 - self.draws.hidden * np.minimum(slow, send) / send
        parts = {
            "compute": compute,
            STRAGGLERS: slow - compute,
            BYTES: bytes_s * seen,
            MESSAGES: latencies * seen,
        }
        return _Step(devices, inside, nodes, expected, slow, bytes_s, question, parts)


def _messages(steps: Steps, step: _Step) -> Floats:
    """Each gradient is a message of its own, of 0.1 ms in a node and 0.5 ms between nodes."""
    tensors = steps.setup.tensors or 100 * np.exp(0.8 * steps.other)
    latency = (0.5e-3 if step.nodes > 1 else 0.1e-3) * np.exp(0.7 * steps.size)
    sent = tensors * latency * np.log2(2 * step.devices) / 2 / steps.setup.accumulate
    return np.asarray(step.parts[MESSAGES] + sent)


def _servers(steps: Steps, step: _Step) -> dict[str, Floats]:
    """The port of each server carries the gradients and parameters of all that send to it."""
    senders = np.where(steps.other > 0, step.devices, max(step.nodes, 2))
    some = np.where(steps.chance < 0.5, 1, np.where(steps.chance < 0.75, 2, senders))
    known = max(steps.setup.servers or 0, 0)
    servers = np.minimum(known or some, senders)
    count = step.nodes if step.nodes > 1 else step.inside
    once = step.question / (2 * (1 - 1 / max(count, 2)))
    busiest = once * senders / servers * (1 + steps.share)
    return {BYTES: 0 * once, MESSAGES: 0 * once, SERVERS: busiest}


def _input(steps: Steps, step: _Step) -> Floats:
    """Devices or nodes share a source, which delivers less than as many more examples."""
    first, last = steps.setup.posted[0].devices, steps.setup.posted[-1].devices
    rate = (last / first) ** np.where(steps.chance < _SATURATED, 0.0, steps.share)
    sources = step.nodes / steps.setup.layout(first, reference=True)[1]
    rate *= np.where(steps.storage < _SHARED_STORAGE, 1.0, sources)
    examples = step.devices * step.expected / first
    return np.asarray(np.maximum(0.0, steps.first_s * examples / rate - step.total))


def _short(steps: Steps, step: _Step) -> Floats:
    """Some ms of each step, or a share of the reference's, do not shrink with its examples."""
    whole = step.compute / step.expected
    return np.asarray(5e-3 * np.exp(0.8 * steps.size) + whole * steps.share * (1 - step.expected))


def _cores(steps: Steps, step: _Step) -> Floats:
    """Processes share the cores of a machine. CPUs also wait for the slowest core."""
    if steps.setup.on_cpu:
        shared = (step.inside - 1) * steps.share
        return np.asarray(step.compute * (shared + np.exp(0.7 * steps.size)))
    need = 2 * step.inside * np.exp(0.8 * steps.size)
    cores = steps.setup.cores or 16 * np.exp(0.7 * steps.other)
    return np.asarray(step.compute * np.maximum(0, need / cores - 1))


def _no_overlap(_: Steps, step: _Step) -> dict[str, Floats]:
    """Nothing is hidden behind computing, though most of the shorter of the two could be."""
    could_hide = np.minimum(step.slow, step.bytes_s) * _COULD_HIDE
    return {BYTES: step.bytes_s - could_hide, NO_OVERLAP: could_hide}


def _alone(_: Steps, step: _Step) -> dict[str, Floats]:
    """One device does the work of all, and exchanges nothing."""
    idle = dict.fromkeys((BYTES, MESSAGES, STRAGGLERS), 0 * step.compute)
    return idle | {ALONE: step.compute * (step.devices - 1)}


_ADDED: Mapping[str, Callable[[Steps, _Step], Floats | dict[str, Floats]]] = {
    MESSAGES: _messages,
    SERVERS: _servers,
    INPUT: _input,
    SHORT: _short,
    CORES: _cores,
    NO_OVERLAP: _no_overlap,
    ALONE: _alone,
    # The link in use is 3 to 100 times slower than the one that is there.
    LINK: lambda steps, step: step.question * (3 * 33**steps.share - 1),
    STRAGGLERS: lambda steps, step: (
        step.parts[STRAGGLERS]
        + 0.12 * np.exp(0.8 * steps.size) * np.log2(step.devices) * step.compute
    ),
    # Every device receives the rows of the gradient of every other: n − 1 times a ring's S/W.
    SPARSE: lambda steps, step: step.bytes_s * step.devices / 2 * np.exp(steps.size - 1.5),
    LOGGING: lambda steps, step: 0.3 * np.exp(steps.size) * step.compute,
    # Each device has as many examples as on the reference, or reads all data.
    CONFUSED: lambda _, step: step.compute / step.expected * (1 - step.expected),
    WHOLE: lambda steps, step: (step.devices / steps.setup.posted[0].devices - 1) * step.total,
}
"""What each cause adds to a step: its seconds, or those of several parts."""

"""Causes of extra time on many devices: what each adds to a step.

A step consists of computing, of what is usual on such a cluster (`cluster_steps`: bytes, messages,
unequal devices), and of what one more cause adds. The size of a cause is not known beforehand, so
it is drawn from a distribution that covers what such causes do in practice. `causes.yaml` declares
the causes; `Slowdown.parts` has the seconds that each adds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from nodewise.core.errors import UserError
from nodewise.core.schema import read_tree
from nodewise.predict.cluster_steps import DRAWS, Draws, Topology, Training
from nodewise.predict.points import Floats
from nodewise.results.posted_numbers import Posted

DECLARED: dict[str, Any] = read_tree(Path(__file__).with_name("causes.yaml"))
CAUSES: dict[str, dict[str, Any]] = DECLARED["causes"]
BYTES, MESSAGES, STRAGGLERS = "exchange by bytes", "exchange by messages", "stragglers"
INPUT, SERVERS, SPARSE = "input", "servers", "sparse gradients gathered"
LINK, NO_OVERLAP = "wrong interface or transport", "no overlap"
SHORT, CORES, LOGGING = "steps too short", "too few cores", "synchronisation in each step"
CONFUSED, WHOLE = "weak and strong scaling confused", "data not sharded"
ALONE = "only one device used"
_PART = {name: part for part, name in enumerate(CAUSES, 1)}  # the first part is computing

Added = dict[str, Floats]
"""Seconds that causes add to a step, each (1 + DRAWS,)."""
NORMAL = 0.85
"""Scaling with this efficiency is normal."""
_TYPICAL_PARAMETERS = 25e6  # where they are not known, with a scatter of 1.5 of the logarithm
_FEW_PARAMETERS = 3e6  # below, steps are short, as those of MNIST's and CIFAR-10's models
_MOST_MISREAD = 0.7  # efficiency from which on step times that hardly change may be misread
_USUAL_WAIT = 0.05  # per doubling; on published clusters that lost more, the cause is not known
_SATURATED = 0.4  # how often the reference already waits for input


@dataclass
class Slowdown:
    """A training that does not scale, with draws of the parts of its step by possible causes.

    Attributes:
        posted: measured numbers by devices; the `first` is the reference, the `last` in question.
        training: what is trained, with the reference's batch. Unknown parameters are drawn.
        controls: the last number again, with the factors that `causes.yaml` says.
        servers: number of servers that sum gradients; 0: all-reduce; -1: some; None: unknown.
        tensors: number of gradients, if known.
        cores: cores of a machine, if known.
        embedding: whether the model has one: its gradient may be sparse, and its input is small.
        cpu: whether the devices are CPUs, so that computing takes all cores.
        one_nodes: nodes of the reference; None: as `cluster` says.
        link_told: whether it was said what links the nodes: else it may be far slower.
        same_devices: whether the reference and the number in question run on the same devices.
        across: whether the number in question is of several nodes.
        link_measured: whether the link in question was, so that it is the one in use.
        examples_known: whether it is known how many examples each number counts.
        efficiency: examples per second and device, relative to the reference.
        misread: whether scaling is, or may be, good.

    Raises:
        UserError: two numbers are not of the same quantity.
    """

    posted: tuple[Posted, ...]
    cluster: Topology
    training: Training
    controls: Mapping[str, Posted] = field(default_factory=dict)
    servers: int | None = None
    tensors: int | None = None
    cores: float | None = None
    embedding: bool = False
    cpu: bool = False
    one_nodes: int | None = None
    link_told: bool = True

    def __post_init__(self) -> None:
        self.first, self.last = self.posted[0], self.posted[-1]
        for other in (*self.posted, *self.controls.values()):
            if other.clock != self.first.clock:
                raise UserError(f"{self.first}, but {other}: must be of the same quantity")
        count, reference = self.last.devices, self.layout(self.first.devices, reference=True)
        self.same_devices = (self.first.devices, reference) == (count, self.layout(count))
        self.across = self.layout(count)[1] > 1
        link = (self.cluster.between if self.across else self.cluster.within) or {}
        self.link_measured = bool(link) and {*link} <= {"calibrated", "all_reduces"}
        self.examples_known = not self.first.times_steps or self.training.batch is not None
        self.efficiency = self.examples(count) / self.measured(self.last)
        # Step times that hardly change look like no gain, though each has more examples.
        good = self.efficiency >= (NORMAL if self.examples_known else _MOST_MISREAD)
        self.misread = good and not self.training.strong and count > self.first.devices
        parameters = self.training.parameters or _TYPICAL_PARAMETERS
        self._draws = Draws(self.cluster, replace(self.training, parameters=parameters))
        random = np.random.default_rng(1)
        self._size, self._other, first, payload = random.standard_normal((4, 1 + DRAWS))
        self._share, self._chance, slow = random.random((3, 1 + DRAWS))
        # A link of which nothing is known is 10 Gbit/s or faster, or else slower.
        self._slow = 1.0 if self.link_told else 12 ** np.maximum(0, 2 * slow - 1)
        self._payload = 1.0 if self.training.parameters else np.exp(1.5 * payload)
        of_rate = self.first.devices * self._draws.batch / self.first.value
        known_s: dict[str, Any] = {"step_time_s": self.first.value, "samples_per_s": of_rate}
        # The steps of an epoch and the tokens of a step are unknown. Small models take short steps.
        guess_s = 0.2 * np.sqrt(parameters / _TYPICAL_PARAMETERS) * np.exp(first)
        self._first_s = np.broadcast_to(known_s.get(self.first.clock, guess_s), 1 + DRAWS)
        self._compute_s = self._draws.compute_s(reference, self._first_s)

    def layout(self, devices: int, *, reference: bool = False) -> tuple[int, int]:
        """Return the devices in each node, and the nodes, of a number of devices."""
        if reference and self.one_nodes:
            return ceil(devices / self.one_nodes), self.one_nodes
        return self.cluster.layout(devices)

    def examples(self, devices: int) -> float:
        """Return the examples of a device in a step, relative to the reference's."""
        return self.first.devices / devices if self.training.strong else 1.0

    def measured(self, posted: Posted) -> float:
        """Return a measured step time, relative to the reference."""
        first = self.first
        ratio = first.value / posted.value if posted.rises else posted.value / first.value
        if first.times_steps:
            return ratio
        return ratio * self.examples(posted.devices) * posted.devices / first.devices

    @cached_property
    def frequent(self) -> dict[str, float]:
        """How frequent each cause is that is possible here; the sum is not 1."""
        frequent = {name: cause["frequent"] for name, cause in CAUSES.items()}
        if self.same_devices:
            return {name: frequent[name] for name in (CORES, LOGGING, SHORT)}
        frequent[LINK] *= not self.link_measured
        frequent[WHOLE] *= self.first.clock == "epoch_time_s"
        if self.embedding:
            frequent[SPARSE] *= 5
            frequent[INPUT] *= 0.4
        frequent[SHORT] *= 3 if (self.training.parameters or np.inf) < _FEW_PARAMETERS else 1
        if self.servers:
            frequent |= dict.fromkeys((BYTES, LINK, NO_OVERLAP, SPARSE), 0.0)
            frequent[SERVERS] *= 4
        elif self.servers == 0:
            frequent[SERVERS] = 0.0
        if self.misread:
            others = 0.0 if self.examples_known else 0.6
            frequent = {name: others * share for name, share in frequent.items()}
            frequent |= {CONFUSED: 1.0, ALONE: 0.25}
        if self.first.devices > 1:
            frequent[ALONE] = 0.0
        return {name: share for name, share in frequent.items() if share}

    def parts(self, devices: int, *, reference: bool = False, usual: bool = False) -> Floats:
        """Return the seconds of a step, (parts, possible causes, 1 + DRAWS).

        The first part is computing that scales, the others are those of `CAUSES`.

        Args:
            devices: number of devices.
            reference: whether this is the reference. A cause spares it on one device, or if the
                number in question is of the same devices.
            usual: whether to leave out what causes add.
        """
        layout = self.layout(devices, reference=reference)
        slower, sent, latencies = self._draws.parts(layout)
        # Examples of a device that were expected, relative to the reference's.
        expected = self.first.devices / devices if self.misread else self.examples(devices)
        compute = self._compute_s * expected
        slow = compute * np.minimum(slower, 1 + _USUAL_WAIT * np.log2(devices))
        sent *= self._payload
        sent[1] *= self._slow
        question = sent[int(self.across)]
        bytes_s = sent.sum(axis=0) - (question if self.servers else 0.0)  # in place of a ring
        send = np.maximum(bytes_s + latencies, 1e-12)
        seen = 1 - self._draws.hidden * np.minimum(slow, send) / send
        parts = np.zeros((1 + len(CAUSES), len(self.frequent), 1 + DRAWS))
        parts[0], parts[_PART[STRAGGLERS]] = compute, slow - compute
        parts[_PART[BYTES]], parts[_PART[MESSAGES]] = bytes_s * seen, latencies * seen
        if usual:
            return parts
        usual_s = slow + (bytes_s + latencies) * seen
        added = self._of_computing(devices, layout[0], expected, usual_s)
        added |= self._of_exchange(devices, layout[1], question, slow)
        added[NO_OVERLAP] = (bytes_s + latencies) * (1 - seen)
        # Each device receives the rows of every other: n − 1 times what a ring sends.
        added[SPARSE] = bytes_s * devices / 2 * np.exp(self._size - 1.5)
        spared = reference and (devices == 1 or self.same_devices)
        for row, cause in enumerate(self.frequent):
            if cause in added and (cause == INPUT or not spared):
                parts[_PART[cause], row] += added[cause]
        return parts

    def _of_computing(self, n: int, inside: int, expected: float, usual_s: Floats) -> Added:
        """Return what causes add to a usual step of n devices, so many of them inside a node."""
        first, compute = self.first.devices, self._compute_s * expected
        # Devices share a source. It delivers less than as many more examples, or fewer in all.
        rising = np.where(self._chance < _SATURATED, 0.0, self._share)
        rate = (self.last.devices / first) ** rising
        rate *= (n / first) ** (-0.5 * np.maximum(0, self._other - 0.5))
        # Processes share the cores of a machine. CPUs also wait for the slowest core.
        need = 2 * inside * np.exp(0.8 * self._size)
        crowded = need / (self.cores or 16 * np.exp(0.7 * self._other)) - 1
        busy = (inside - 1) * self._share + np.exp(0.7 * self._size)
        return {
            INPUT: np.maximum(0.0, self._first_s * n * expected / first / rate - usual_s),
            # Some ms of each step, or a share of the reference's, do not shrink with its examples.
            SHORT: 5e-3 * np.exp(0.8 * self._size) + self._compute_s * self._share * (1 - expected),
            WHOLE: (n / first - 1) * usual_s,  # each device reads all data
            CORES: compute * (busy if self.cpu else np.maximum(0, crowded)),
            STRAGGLERS: 0.12 * np.exp(0.8 * self._size) * np.log2(n) * compute,
            LOGGING: 0.3 * np.exp(self._size) * compute,
            ALONE: compute * (n - 1),  # one device does the work of all
            CONFUSED: self._compute_s * (1 - expected),  # each has all examples of the reference
        }

    def _of_exchange(self, n: int, nodes: int, question: Floats, slow: Floats) -> Added:
        """Return what causes add to the bytes on the link in question and to computing."""
        # Each gradient is a message of its own, of 0.1 ms in a node and 0.5 ms between nodes.
        tensors = self.tensors or 100 * np.exp(0.8 * self._other)
        latency = (0.5e-3 if nodes > 1 else 0.1e-3) * np.exp(0.7 * self._size)
        # The port of a server carries the gradients and parameters of all that send to it: devices,
        # or nodes, whose devices sum theirs before. Meanwhile, others may compute.
        ends = nodes if nodes > 1 else n
        senders = np.where(self._chance < 0.5, n, ends) / max(self.servers or 1, 1)
        once = question / (2 * (1 - 1 / max(ends, 2)))
        return {
            # The link in use is 3 to 100 times slower than the one that is there.
            LINK: question * (3 * 33**self._share - 1),
            MESSAGES: tensors * latency * np.log2(2 * n) / 2,
            SERVERS: np.maximum(0, once * senders * (1 + self._share) - slow * (self._other > 0)),
        }


def total(parts: Floats, factors: Mapping[str, float] | None = None) -> Floats:
    """Return the seconds of a step from its parts, as `Slowdown.parts`.

    The time of causes of some kinds is multiplied by the `factors` of these.
    """
    each = [1.0, *((factors or {}).get(cause["of"], 1.0) for cause in CAUSES.values())]
    return np.asarray((parts * np.array(each)[:, None, None]).sum(axis=0))

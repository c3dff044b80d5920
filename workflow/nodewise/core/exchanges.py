"""The table of exchanges: how workers combine what they computed.

Everything that depends on the kind of exchange is declared here, once: whether workers wait for
each other, the bytes that nodes send, the law of the step time, words for readers. A strategy
refers to an entry. Tables and records contain its name, and other modules look it up in
`EXCHANGES`.

Another package adds an exchange with `EXCHANGES.add`, in a module that it declares as an entry
point of the group `nodewise.exchanges`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from nodewise.core.registry import Registry

Waits = Literal["in every step", "once in τ steps", "never"]
Content = Literal["nothing", "gradients", "compressed gradients", "weights", "activations"]


@dataclass(frozen=True)
class Step:
    """A training step, as far as its traffic depends on it.

    `payload_bytes` is the size S of a gradient, and `options` are those of the strategy.
    """

    nodes: int
    payload_bytes: float
    options: Mapping[str, Any] = field(default_factory=dict)
    steps_per_epoch: int = 1


class Traffic(NamedTuple):
    """What a node sends in a step.

    Attributes:
        bytes_sent: bytes, as the mean over the nodes that train; None if a step does not say them.
        busiest_bytes: bytes that the busiest node sends. It receives as many.
        messages: messages that a node sends one after another.
        turns: 1 if the busiest node sends and receives at the same time, 2 if it receives first.
    """

    bytes_sent: float | None
    busiest_bytes: float
    messages: float
    turns: int = 1


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """A way in which workers combine what they computed.

    Attributes:
        name: the name in tables and records.
        waits: when workers wait for each other.
        content: what they send each other.
        holds: who holds the parameters, for readers.
        formula: `bytes_sent` of `traffic` for readers. n is the number of nodes, S the payload.
        traffic: what nodes send in a step.
        law: the name of the law of the step time; None if there is none.
        in_process: whether the nodes are devices of one process, without a network between them.
        plain_alone: whether one node with these options does just what plain training does.
        hidden_share: the share of the shorter of computing and sending that is hidden behind the
            longer one; None if unknown. Strategies with the same exchange may differ in it.
    """

    name: str
    waits: Waits = "in every step"
    content: Content = "gradients"
    holds: str = "every worker"
    formula: str
    traffic: Callable[[Step], Traffic]
    law: str | None = None
    in_process: bool = False
    plain_alone: Callable[[Mapping[str, Any]], bool] = lambda _: True
    hidden_share: float | None = None

    @property
    def synchronous(self) -> bool:
        """Whether workers wait for each other in every step."""
        return self.waits == "in every step"

    @property
    def splits_model(self) -> bool:
        """Whether a node holds only a part of the model."""
        return self.content == "activations"

    @property
    def exact(self) -> bool:
        """Whether the examples of all nodes, unchanged, make one update."""
        return self.synchronous and self.content != "compressed gradients"

    @property
    def data_parallel(self) -> bool:
        """Whether nodes exchange their gradients, compressed or not, in every step."""
        gradients = self.content in ("gradients", "compressed gradients")
        return self.synchronous and gradients and not self.in_process

    @property
    def sums_gradients(self) -> bool:
        """Whether nodes sum their whole gradients in every step."""
        return self.data_parallel and self.exact


EXCHANGES: Registry[Exchange] = Registry("exchange", None, "nodewise.exchanges")


def exchanges_where(condition: Callable[[Exchange], bool]) -> list[str]:
    """Return the names of the exchanges that meet a condition."""
    return [name for name, exchange in EXCHANGES.items() if condition(exchange)]


def _silence(_: Step) -> Traffic:
    return Traffic(0.0, 0.0, 0)


def all_reduce(step: Step) -> Traffic:
    """Return the traffic of a ring that sums `step.payload_bytes` over all nodes."""
    sent = 2 * (step.nodes - 1) / step.nodes * step.payload_bytes
    return Traffic(sent, sent, 2 * (step.nodes - 1))


def _driver(step: Step) -> Traffic:
    """Return the traffic of a star: its driver sends half of all bytes."""
    ring = all_reduce(step)
    return ring._replace(busiest_bytes=(step.nodes - 1) * step.payload_bytes, turns=2)


def _served(step: Step) -> Traffic:
    """Return the traffic with parameter servers, which answer all workers."""
    to_all = step.nodes * step.payload_bytes / step.options.get("servers", 1)
    return Traffic(float(step.payload_bytes), to_all, 2, turns=2)


def _averaging(step: Step) -> Traffic:
    """Return the traffic of a ring once per period."""
    period = step.options.get("period", "epoch")
    steps = max(1, step.steps_per_epoch if period == "epoch" else period)
    ring = all_reduce(step)
    sent = ring.busiest_bytes / steps
    return Traffic(sent, sent, ring.messages / steps)


def _all_gather(step: Step) -> Traffic:
    """Return the traffic if each node sends its message to all others.

    Its size is known for half precision. For the others the plan takes half the bytes of a ring.
    """
    ring = all_reduce(step)
    if step.options.get("method") != "float16":
        return ring._replace(bytes_sent=None, busiest_bytes=ring.busiest_bytes / 2)
    sent = (step.nodes - 1) * step.payload_bytes / 2
    return Traffic(sent, sent, 2 * (step.nodes - 1))


def _stages(step: Step) -> Traffic:
    """Return the traffic of a ring, in place of activations, whose size is not known."""
    return all_reduce(step)._replace(bytes_sent=None)


NONE = Exchange(
    name="none",
    content="nothing",
    holds="the worker",
    formula="0",
    traffic=_silence,
    law="none",
)
RING = Exchange(
    name="ring",
    formula="2(n − 1)/n · S",
    traffic=all_reduce,
    law="ring",
    hidden_share=0.2,  # by our emulated records: nothing at small batches, half at large ones
)
STAR = Exchange(name="star", formula="2(n − 1)/n · S", traffic=_driver, law="star")
DEVICES = Exchange(
    name="devices",
    holds="every device",
    formula="0: one process",
    traffic=_silence,
    in_process=True,
)
SERVER = Exchange(
    name="server",
    waits="never",
    holds="one or more servers",
    formula="S; a server n · S/p",
    traffic=_served,
    law="server",
    plain_alone=lambda _: False,  # it exchanges with its servers
)
AVERAGING = Exchange(
    name="averaging",
    waits="once in τ steps",
    content="weights",
    formula="2(n − 1)/n · S/τ",
    traffic=_averaging,
    law="averaging",
)
ALL_GATHER = Exchange(
    name="all-gather",
    content="compressed gradients",
    formula="(n − 1) · ρS",
    traffic=_all_gather,
    law="compressed",
    plain_alone=lambda _: False,  # it encodes its gradient
)
ACTIVATIONS = Exchange(
    name="activations",
    content="activations",
    holds="one stage on each node, a whole model per group",
    formula="2(p − 1) · a · b + 2(g − 1)/g · S/p",
    traffic=_stages,
    law="gpipe",
    plain_alone=lambda options: options.get("micro_batches", 1) == 1,
)
for _exchange in (NONE, RING, STAR, DEVICES, SERVER, AVERAGING, ALL_GATHER, ACTIVATIONS):
    EXCHANGES.add(_exchange.name, _exchange)

"""Laws of workers that train at their own pace and queue at parameter servers.

The servers are resources of a closed queueing network whose customers are the workers.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from nodewise.predict.law import (
    COMPUTE,
    EXCESS_INPUT,
    LAWS,
    LINK,
    TINY,
    At,
    Parameter,
    PartsLaw,
    Value,
    Values,
    require,
)

# Below the knee a few workers hardly tell what is computed from what is sent: bytes are expected to
# be the smaller part, or a knee would be seen where there is none.
_LINK = tuple(replace(p, shrink=0.3) if p.name == "seconds_per_byte" else p for p in LINK)
SERVICE = Parameter(
    "service_s", "s", "model", "s: serving one step of a worker, besides its bytes", shrink=0.10
)


@dataclass(frozen=True)
class _Served(PartsLaw):
    """Workers that take turns at p `servers`, nodes of their own, and wait for nobody else.

    A worker thinks for Z = compute + input + 2α, and is served: S bytes in, s seconds of work, S
    bytes out, all shared evenly by the servers. If they are `full_duplex`, bytes of one worker come
    in while those of another leave. On one worker that is Z + s + 2Sβ. Gradients are computed on
    weights that are about n−1 updates old.
    """

    servers: int = 1
    full_duplex: bool = True

    parameters: ClassVar[tuple[Parameter, ...]] = (*COMPUTE, EXCESS_INPUT, *_LINK, SERVICE)

    def __post_init__(self) -> None:
        require(self.servers >= 1, "servers", "1 or more", self.servers)

    def wait_s(self, p: Values, at: At) -> Value:
        """Return 0: no worker waits for the slowest."""
        return 0.0 * at.nodes

    def think_s(self, p: Values, at: At) -> Value:
        """Return Z, the seconds of a worker's step that no server is needed for."""
        return self.compute_s(p, at) + self.input_s(p, at) + 2 * p["latency_s"]

    def demands_s(self, p: Values, at: At) -> list[Value]:
        """Return the seconds that a step needs of each resource, over all servers together."""
        one_way = at.payload * p["seconds_per_byte"]
        link = [one_way, one_way] if self.full_duplex else [2 * one_way]
        return [*link, p["service_s"]]

    def bottleneck_s(self, p: Values, at: At) -> Value:
        """Return d, the seconds between two steps of any workers when servers are never idle."""
        link, *_, service = self.demands_s(p, at)
        return _larger(link, service) / self.servers


@LAWS.register
@dataclass(frozen=True)
class ParameterServerBound(_Served):
    """t = max(Z + D, n·d): nobody queues until the busiest server resource is never idle.

    D = s + 2Sβ is what a worker needs of the servers, d what the busiest resource of one of them
    has to do for it: with one server, half duplex and s = 0, d = D = 2Sβ. Workers cannot be
    quicker; those that come in turn, like clockwork, are as quick.
    """

    name: ClassVar[str] = "server_bound"
    title: ClassVar[str] = "Parameter server, bound"
    source: ClassVar[str] = (
        "E. D. Lazowska, J. Zahorjan, G. S. Graham and K. C. Sevcik, Quantitative System "
        "Performance, 1984, chapter 5"
    )

    def communicate_s(self, p: Values, at: At) -> Value:
        """Return 2α and what the workers are served and queue, until n·b examples are done."""
        think, alone = self.think_s(p, at), sum(self.demands_s(p, at))
        busy = at.nodes * self.bottleneck_s(p, at)
        return 2 * p["latency_s"] + _larger(alone, busy - think)


@LAWS.register
@dataclass(frozen=True)
class ParameterServer(_Served):
    """t = Z + R(n): workers queue at the servers, by exact mean-value analysis.

    A worker that comes to a resource with demand D_k on each of p servers finds what n−1 workers
    would leave there: R_k(n) = D_k·(1 + Q_k(n−1)/p), X(n) = n/(Z + ΣR_k), Q_k = X·R_k. Exact if
    times of service are distributed exponentially; the more regular they are, the nearer are the
    workers to the bound. Between whole numbers of workers R is interpolated.

    Example:
        >>> p = dict.fromkeys((c.name for c in ParameterServer.parameters), 0.0)
        >>> p |= {"compute_fixed_s": 1.0, "seconds_per_byte": 0.1}
        >>> laws = (ParameterServerBound(full_duplex=False), ParameterServer(full_duplex=False))
        >>> [round(6 / float(law.evaluate(p, nodes=6, batch=1, payload=1)), 2) for law in laws]
        [5.0, 4.04]
    """

    name: ClassVar[str] = "server"
    title: ClassVar[str] = "Parameter server, queue"
    source: ClassVar[str] = (
        "M. Reiser and S. S. Lavenberg, Mean-value analysis of closed multichain queuing "
        "networks, Journal of the ACM 27(2), 1980"
    )

    def communicate_s(self, p: Values, at: At) -> Value:
        """Return 2α + R(n)."""
        think, demands = self.think_s(p, at), self.demands_s(p, at)
        queues = [0.0 * demand for demand in demands]
        served = 0.0 * (think + sum(demands))
        for n in range(1, int(np.ceil(at.nodes.max(initial=1))) + 1):
            times = [d * (1 + q / self.servers) for d, q in zip(demands, queues, strict=True)]
            steps_per_s = n / (think + sum(times) + TINY)
            queues = [steps_per_s * time for time in times]
            served = served + np.maximum(0.0, 1 - np.abs(at.nodes - n)) * sum(times)
        return 2 * p["latency_s"] + served


def _larger(a: Value, b: Value) -> Value:
    """Return the larger of two numbers, by operators only."""
    return a * (a >= b) + b * (a < b)

"""Laws of workers that train at their own pace and queue at parameter servers.

The servers are resources of a closed queueing network whose customers are the workers.
"""

from dataclasses import dataclass, replace

import sympy

from nodewise.predict.functions import QueuedTime
from nodewise.predict.law import LAWS, PARTS, Law, Parameter, S, n, positive, setting
from nodewise.predict.parts_law import COMPUTE, EXCESS_INPUT, LINK, PartsLaw, alpha, beta

# Below the knee a few workers hardly tell what is computed from what is sent: bytes are expected to
# be the smaller part, or a knee would be seen where there is none.
_LINK = tuple(replace(p, shrink=0.3) if p.name == "seconds_per_byte" else p for p in LINK)
SERVICE = Parameter(
    "s", "service_s", "s", "model", "serving one step of a worker, besides its bytes", shrink=0.10
)
s, p, f = SERVICE.symbol, positive("p"), positive("f")
think = PARTS["compute"] + PARTS["input"] + 2 * alpha
link = (2 - f) * S * beta


@dataclass(frozen=True)
class _Served(PartsLaw):
    """Workers that take turns at p `servers`, nodes of their own, and wait for nobody else.

    A worker thinks for Z = compute + input + 2α, and is served: S bytes in, s seconds of work, S
    bytes out, all shared evenly by the servers. If they are `full_duplex`, bytes of one worker come
    in while those of another leave. On one worker that is Z + s + 2Sβ. Gradients are computed on
    weights that are about n−1 updates old.
    """

    servers: int = setting("p", "1", "parameter servers", least=1, default=1)
    full_duplex: bool = setting(
        "f", "1", "1 if bytes go both ways at once, else 0", least=0, default=True
    )

    link_known_by = "rate"
    alone = "with its servers"
    parameters = (*COMPUTE, EXCESS_INPUT, *_LINK, SERVICE)
    wait = sympy.S.Zero


@LAWS.register
class ParameterServerBound(_Served):
    """t = max(Z + D, n·d): nobody queues until the busiest server resource is never idle.

    D = s + 2Sβ is what a worker needs of the servers, d what the busiest resource of one of them
    has to do for it: with one server, half duplex and s = 0, d = D = 2Sβ. Workers cannot be
    quicker; those that come in turn, like clockwork, are as quick.
    """

    name = "server_bound"
    title = "Parameter server, bound"
    source = (
        "E. D. Lazowska, J. Zahorjan, G. S. Graham and K. C. Sevcik, Quantitative System "
        "Performance, 1984, chapter 5"
    )
    communicate = 2 * alpha + sympy.Max(s + 2 * S * beta, n * sympy.Max(link, s) / p - think)


@LAWS.register
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

    name = "server"
    aliases = ("parameter_server",)
    most_nodes = 4096  # workers, which the law goes through one by one
    title = "Parameter server, queue"
    source = (
        "M. Reiser and S. S. Lavenberg, Mean-value analysis of closed multichain queuing "
        "networks, Journal of the ACM 27(2), 1980"
    )
    communicate = 2 * alpha + QueuedTime(n, think, p, link, f * S * beta, s)

    def alternatives(self) -> tuple[Law, ...]:
        """Return also the bound: what ran does not tell how regularly workers come to servers."""
        return (self, ParameterServerBound(self.servers, self.full_duplex))

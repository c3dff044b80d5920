"""Laws of asynchronous workers that queue at parameter servers.

The system is a closed queueing network: workers are the customers, servers the resources.
"""

from dataclasses import dataclass, replace

import sympy

from nodewise.predict.functions import QueuedTime
from nodewise.predict.law import LAWS, PARTS, Law, Parameter, S, n, positive, setting
from nodewise.predict.parts_law import COMPUTE, EXCESS_INPUT, LINK, PartsLaw, alpha, beta

# A few workers do not saturate the servers, so their step times hardly separate computing from
# sending. The prior expects bytes to be the smaller part; without it, fits would show a saturation
# that is not there.
_LINK = tuple(replace(p, shrink=0.3) if p.name == "seconds_per_byte" else p for p in LINK)
SERVICE = Parameter(
    "s", "service_s", "s", "model", "serving one step of a worker, besides its bytes", shrink=0.10
)
s, p, f = SERVICE.symbol, positive("p"), positive("f")
think = PARTS["compute"] + PARTS["input"] + 2 * alpha
link = (2 - f) * S * beta


@dataclass(frozen=True)
class _Served(PartsLaw):
    """Base class of laws of workers that use p `servers` on nodes of their own.

    Workers do not wait for each other. In a step, a worker first thinks for Z = compute + input +
    2α. It is then served: S bytes in, s seconds of work, S bytes out, divided evenly among the
    servers. With `full_duplex`, bytes of one worker can arrive while those of another leave. A step
    of a single worker takes Z + s + 2Sβ. With n workers, gradients are computed on weights that are
    about n−1 updates old.
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
    """t = max(Z + D, n·d): no queueing until the busiest server resource is saturated.

    D = s + 2Sβ is the time that a worker needs from the servers in total. d is the time that it
    needs from the busiest resource of one server. For example, d = D = 2Sβ with one server, half
    duplex and s = 0. The formula is a lower bound of the step time. Workers that arrive in perfect
    rotation reach it.
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

    A worker that arrives at resource k sees the mean queue of a system with n−1 workers. With the
    demand D_k, divided among p servers: R_k(n) = D_k·(1 + Q_k(n−1)/p), X(n) = n/(Z + ΣR_k),
    Q_k = X·R_k. This is exact for exponentially distributed service times. The more regular they
    are, the closer workers get to `ParameterServerBound`. R is interpolated between whole numbers
    of workers.

    Example:
        >>> p = dict.fromkeys((c.name for c in ParameterServer.parameters), 0.0)
        >>> p |= {"compute_fixed_s": 1.0, "seconds_per_byte": 0.1}
        >>> laws = (ParameterServerBound(full_duplex=False), ParameterServer(full_duplex=False))
        >>> [round(6 / float(law.evaluate(p, nodes=6, batch=1, payload=1)), 2) for law in laws]
        [5.0, 4.04]
    """

    name = "server"
    aliases = ("parameter_server",)
    most_nodes = 4096  # the recursion visits every number of workers
    title = "Parameter server, queue"
    source = (
        "M. Reiser and S. S. Lavenberg, Mean-value analysis of closed multichain queuing "
        "networks, Journal of the ACM 27(2), 1980"
    )
    communicate = 2 * alpha + QueuedTime(n, think, p, link, f * S * beta, s)

    def alternatives(self) -> tuple[Law, ...]:
        """Return this law and its bound: how regularly workers arrive at servers is not known."""
        return (self, ParameterServerBound(self.servers, self.full_duplex))

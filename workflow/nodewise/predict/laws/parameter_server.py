"""The law of asynchronous workers that share parameter servers."""

from dataclasses import dataclass, replace

import sympy

from nodewise.predict.law import LAWS, PARTS, Parameter, S, n, positive, setting
from nodewise.predict.parts_law import COMPUTE, EXCESS_INPUT, LINK, PartsLaw, alpha, beta

# A few workers do not saturate the servers, so their step times hardly separate computing from
# sending. The prior expects bytes to be the smaller part; without it, fits would show a saturation
# that is not there.
_LINK = tuple(replace(p, shrink=0.3) if p.name == "seconds_per_byte" else p for p in LINK)
SERVICE = Parameter(
    "s", "service_s", "s", "model", "serving one step of a worker, besides its bytes", shrink=0.10
)
s, p = SERVICE.symbol, positive("p")
think = PARTS["compute"] + PARTS["input"] + 2 * alpha
served = s + 2 * S * beta
excess = served * (1 + (n - 1) / (2 * p)) - think


@LAWS.register
@dataclass(frozen=True)
class ParameterServer(PartsLaw):
    """t = Z + R: workers queue at p servers, by an approximate mean-value analysis.

    Workers do not wait for each other. In a step, a worker first thinks for Z = compute + input +
    2α. Serving it takes D = s + 2Sβ: S bytes in, s seconds of work, S bytes out. Bytes of one
    worker arrive while those of another leave, so the p servers are 2p resources with a demand of
    D/2p each. An arriving worker sees the other n−1 workers as they are on average, therefore
    R = D·(1 + (n−1)/2p·R/(Z + R)), of which `communicate` has the positive solution. A single
    worker takes Z + D; many workers take n·D/2p. With n workers, gradients are computed on weights
    that are about n−1 updates old.

    Example:
        >>> p = dict.fromkeys((c.name for c in ParameterServer.parameters), 0.0)
        >>> p |= {"compute_fixed_s": 1.0, "seconds_per_byte": 0.1}
        >>> ParameterServer().evaluate(p, nodes=[1, 2, 30], batch=1, payload=1).round(2).tolist()
        [1.2, 1.22, 3.19]
    """

    servers: int = setting("p", "1", "parameter servers", least=1, default=1)

    name = "server"
    aliases = ("parameter_server",)
    alone = "with its servers"
    title = "Parameter server"
    source = (
        "E. D. Lazowska, J. Zahorjan, G. S. Graham and K. C. Sevcik, Quantitative System "
        "Performance, 1984, chapter 6, with the approximation of Y. Bard and P. J. Schweitzer"
    )
    parameters = (*COMPUTE, EXCESS_INPUT, *_LINK, SERVICE)
    wait = sympy.S.Zero
    communicate = 2 * alpha + (excess + sympy.sqrt(excess**2 + 4 * served * think)) / 2

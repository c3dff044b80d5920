"""The laws of queues: workers at parameter servers, and micro-batches in a pipeline."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import pandas as pd
import sympy

from nodewise.predict.law import (
    COMPUTE,
    EXCESS_INPUT,
    LAWS,
    LINK,
    SYMBOLS,
    Law,
    Parameter,
    S,
    alpha,
    b,
    beta,
    c_0,
    in_order,
    n,
    positive,
    setting,
)

m, a = positive("m"), positive("a")
# A few workers do not saturate the servers, so their step times hardly separate computing from
# sending. The prior expects bytes to be the smaller part; without it, fits would show a saturation
# that is not there.
_LINK = tuple(replace(p, shrink=0.3) if p.name == "seconds_per_byte" else p for p in LINK)
SERVICE = Parameter(
    "s", "service_s", "s", "model", "serving one step of a worker, besides its bytes", shrink=0.10
)
s, p = SERVICE.symbol, positive("p")
think = SYMBOLS["compute"] + SYMBOLS["input"] + 2 * alpha
served = s + 2 * S * beta
excess = served * (1 + (n - 1) / (2 * p)) - think


@LAWS.register
@dataclass(frozen=True)
class ParameterServer(Law):
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


@LAWS.register
@dataclass(frozen=True)
class GPipe(Law):
    """t = (m+n−1)·(c₀ + c₁·b/m) + 2(m+n−2)·(α + a·n·b/m·β): n stages, m micro-batches of n·b/m.

    All stages are equal: each takes c₁/n per example plus c₀ per micro-batch. Between neighbouring
    stages, activations of a micro-batch go forward and their gradients back, `activation_bytes` a
    per example. Micro-batches cross a link one at a time: the last of m waits for m−1 others at the
    first link and then crosses n−1 links. The wait is the pipeline bubble, the n−1 of m+n−1 turns
    in which the pipeline fills and empties. One node sends nothing. The payload has no effect.
    """

    micro_batches: int = setting("m", "1", "micro-batches of a step", least=1)
    activation_bytes: float = setting(
        "a", "B", "activations of an example between two stages", least=0
    )

    name = "gpipe"
    alone = "training one micro-batch after the other"
    title = "Pipeline (GPipe)"
    source = (
        "Y. Huang et al., GPipe: Efficient training of giant neural networks using pipeline "
        "parallelism, NeurIPS 2019, arXiv:1811.06965, section 2"
    )
    parameters = (*COMPUTE, EXCESS_INPUT, *LINK)
    compute = in_order(Law.compute, (m - 1) * c_0)
    wait = (n - 1) / m * SYMBOLS["compute"]
    communicate = sympy.Piecewise(
        (2 * (m + n - 2) * (alpha + a * n * b / m * beta), n > 1), (0, True)
    )

    @classmethod
    def of_curve(cls, options: Mapping[str, Any], rows: pd.DataFrame) -> Self | None:
        """Return the law, with activation bytes per example estimated from the bytes sent.

        They are 0 if no bytes were counted. Returns None for several pipelines in parallel, which
        this law does not describe.
        """
        if "micro_batches" not in options or "groups" in options:
            return None
        nodes = rows["nodes"]
        sent = rows["bytes_sent_per_step"] * nodes
        examples = 2 * (nodes - 1) * nodes * rows["batch_per_worker"]
        median = (sent / examples)[nodes > 1].median()
        return cls(options["micro_batches"], float(median) if median > 0 else 0.0)

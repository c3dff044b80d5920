"""The laws of collectives: by a ring, a tree, one driver or to all, every few steps, or never."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import pandas as pd
import sympy
from sympy import Expr

from nodewise.predict.law import (
    LAWS,
    SYMBOLS,
    Law,
    Parameter,
    S,
    alpha,
    beta,
    in_order,
    n,
    positive,
    setting,
)

HIDDEN = Parameter(
    "h",
    "hidden_share",
    "1",
    "link",
    "share of the shorter of computing and communicating that is hidden",
    shrink=0.05,
)
INSIDE = (
    Parameter("alpha_m", "inside_latency_s", "s", "link", "latency per message inside a machine"),
    Parameter(
        "beta_m", "inside_seconds_per_byte", "s/B", "link", "inverse bandwidth inside a machine"
    ),
)
_alpha_m, _beta_m = (p.symbol for p in INSIDE)
tau = positive("tau")
TURNS = Parameter(
    "w", "turns_share", "1", "link", "share of sending that waits for receiving", shrink=0.3
)
CODEC = Parameter(
    "k",
    "codec_seconds_per_byte",
    "s/B",
    "link",
    "encoding a byte of the gradient, or decoding one of a message",
    shrink=0.10,
)
rho = positive("rho")


class AllReduce(Law):
    """Base class of laws in which every step sums gradients over all nodes.

    The exchange of the first gradients may hide behind the computing of the others. The share h of
    the shorter of computing and communicating is hidden. Each part is still the time it would take
    alone, so with h > 0 the parts add up to more than the step.
    """

    parameters: ClassVar[tuple[Parameter, ...]] = (*Law.parameters, HIDDEN)
    step = in_order(
        SYMBOLS["compute"],
        SYMBOLS["wait"],
        SYMBOLS["input"],
        SYMBOLS["communicate"],
        -sympy.Min(HIDDEN.symbol, 1) * sympy.Min(SYMBOLS["compute"], SYMBOLS["communicate"]),
    )


@LAWS.register
class RingAllReduce(AllReduce):
    """communicate = 2(n−1)·α + 2(n−1)/n·S·β: a ring all-reduce of the gradient.

    The ring sends 2(n−1) messages of S/n bytes in sequence: n−1 to sum, n−1 to distribute the sums.

    Example:
        >>> p = dict.fromkeys((c.name for c in RingAllReduce.parameters), 0.0)
        >>> p |= {"compute_per_example_s": 2e-4, "seconds_per_byte": 1 / 58e6}
        >>> RingAllReduce().evaluate(p, nodes=[1, 2, 3], batch=100, payload=5.8e6).round(3).tolist()
        [0.02, 0.12, 0.153]
    """

    name = "ring"
    title = "Ring all-reduce"
    source = (
        "P. Patarasuk and X. Yuan, Bandwidth optimal all-reduce algorithms for clusters of "
        "workstations, Journal of Parallel and Distributed Computing 69(2), 2009"
    )
    communicate = 2 * alpha * (n - 1) + 2 * S * beta * (n - 1) / n

    @classmethod
    def of_curve(cls, options: Mapping[str, Any], rows: pd.DataFrame) -> Law | None:
        """Return the law: `RingOverMachines` if a machine has several nodes."""
        per_machine = float(rows["nodes_per_machine"].max())
        if per_machine > 1:
            return RingOverMachines(per_machine)
        return super().of_curve(options, rows)


@LAWS.register
@dataclass(frozen=True)
class RingOverMachines(RingAllReduce):
    """communicate = 2(n−1)·α + 2(n−1)/n·S·β: a ring; n ≤ m nodes are in one machine, with αₘ, βₘ.

    All messages of a round are sent at the same time, and the round ends with the slowest one. A
    ring over several machines crosses the link between machines in every round, so that link alone
    determines α and β.
    """

    per_machine: float = setting("m", "1", "nodes in a machine", least=1)

    name: ClassVar[str] = "ring_over_machines"
    title: ClassVar[str] = "Ring over machines"
    parameters: ClassVar[tuple[Parameter, ...]] = (*AllReduce.parameters, *INSIDE)
    communicate: ClassVar[Expr] = sympy.Piecewise(
        (RingAllReduce.communicate.subs({alpha: _alpha_m, beta: _beta_m}), n <= positive("m")),
        (RingAllReduce.communicate, True),
    )


@LAWS.register
class Tree(AllReduce):
    """communicate = 2·log₂n·α + 2(n−1)/n·S·β: double binary trees, or halving and doubling.

    Sums need log₂n rounds, and another log₂n rounds return them. Every node sends as many bytes as
    in a ring. The formula is exact for powers of two and interpolates smoothly between them.
    """

    name = "tree"
    aliases = ("halving_doubling",)
    title = "Tree"
    source = (
        "R. Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication "
        "operations in MPICH, International Journal of High Performance Computing Applications "
        "19(1), 2005"
    )
    communicate = 2 * alpha * sympy.log(n) / sympy.log(2) + 2 * S * beta * (n - 1) / n


@LAWS.register
class Star(AllReduce):
    """communicate = (n−1)·(2α + (1 + w)·S·β): one node, the driver, sums and sends the sum back.

    The driver receives n−1 gradients over its link and sends the sum to each of the n−1 other
    nodes. At w = 1 it begins to send when all is summed; at w = 0 it sends each piece of the sum
    while it receives the next one, because a link carries bytes both ways at once.
    """

    name = "star"
    title = "Star, one driver"
    source = (
        "P. Moritz, R. Nishihara, I. Stoica and M. I. Jordan, SparkNet: Training deep networks in "
        "Spark, ICLR 2016, arXiv:1511.06051"
    )
    parameters = (*AllReduce.parameters, TURNS)
    communicate = (n - 1) * (2 * alpha + (1 + TURNS.symbol) * S * beta)


@LAWS.register
@dataclass(frozen=True)
class ParameterAveraging(Law):
    """communicate = (2(n−1)·α + 2(n−1)/n·S·β)/τ: a ring all-reduce of the weights every τ steps.

    Nodes wait for each other only when they average, once per `period` of τ steps. If the steps of
    a node are independent, the standard deviation of the time of τ steps is √τ times that of one
    step. The wait per step is therefore 1/√τ of the wait with an exchange in every step. This does
    not cover a node that is always slower.
    """

    period: float = setting("tau", "1", "steps from one averaging to the next", least=1)

    name = "averaging"
    title = "Parameter averaging"
    source = (
        "J. Wang and G. Joshi, Adaptive communication strategies to achieve the best error-runtime "
        "trade-off in local-update SGD, SysML 2019, arXiv:1810.08313"
    )
    wait = Law.wait / sympy.sqrt(tau)
    communicate = RingAllReduce.communicate / tau

    @classmethod
    def of_curve(cls, options: Mapping[str, Any], rows: pd.DataFrame) -> Law | None:
        """Return the law, or None if the period is an epoch, whose steps depend on the batch."""
        return None if options.get("period") == "epoch" else super().of_curve(options, rows)


@LAWS.register
@dataclass(frozen=True)
class CompressedAllGather(Law):
    """communicate = k·S·(1 + ρn) + (n−1)·(α + ρ·S·β): every node sends a coded gradient to all.

    `density` ρ is the size of a coded gradient as a share of S. It is known from the bytes counted
    on the network. A node encodes its own S bytes and decodes all n messages, including its own, so
    coding takes time even on one node. k depends on processor and codec. It can be estimated from
    communication measured on one node; from step times only as far as compute is known.
    """

    density: float = setting("rho", "1", "size of a coded gradient, as a share of S", least=1e-9)

    name = "compressed"
    alone = "encoding its gradient"
    title = "Compressed all-gather"
    source = (
        "N. Strom, Scalable distributed DNN training using commodity GPU cloud computing, "
        "Interspeech 2015"
    )
    parameters = (*Law.parameters, CODEC)
    communicate = CODEC.symbol * S * (1 + rho * n) + (n - 1) * (alpha + rho * S * beta)

    @classmethod
    def of_curve(cls, options: Mapping[str, Any], rows: pd.DataFrame) -> Self:
        """Return the law, with ρ from the bytes sent: the median of sent/((n−1)·S) on n > 1 nodes.

        ρ is 1 if no bytes were counted.
        """
        several = rows[(rows["nodes"] > 1) & (rows["bytes_sent_per_step"] > 0)]
        payload = (several["nodes"] - 1) * several["payload_bytes"].astype(float)
        sent = (several["bytes_sent_per_step"] / payload).median()
        return cls(float(sent) if sent > 0 else 1.0)


@LAWS.register
class NoExchange(Law):
    """communicate = 0: one node, or nodes that do not communicate."""

    name = "none"
    title = "No exchange"
    source = "no communication"

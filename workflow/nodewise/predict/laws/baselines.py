"""Baselines: laws of a step time over nodes alone, from other fields or of other authors.

They know neither payload nor what nodes exchange, and are laws of one line: their coefficients hold
at one batch per worker b, and there they are asked at other numbers of nodes. Laws that were made
for a job of fixed size are put so: a job of steps of n·b examples each takes 1/n as many steps on n
nodes, so that its time, and one over its speed, is proportional to t(n)/n.

`LAWS` has the laws of this package by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nodewise.predict import law as formulas
from nodewise.predict.law import At, Law, Parameter, Value, Values, overlapped
from nodewise.predict.laws import parameter_server

ONE_NODE = Parameter("one_node_s", "s", "line", "a: the step on one node")


@dataclass(frozen=True)
class Amdahl(Law):
    """t = p + q·n: of one node's step, p is shared out among the nodes and q is not.

    Of a job: T(n)/T(1) = f + (1 − f)/n, with the serial share f = q/(p + q). It cannot say that
    nodes make a job longer.
    """

    name: ClassVar[str] = "amdahl"
    title: ClassVar[str] = "Amdahl"
    source: ClassVar[str] = (
        "G. M. Amdahl, Validity of the single processor approach to achieving large scale "
        "computing capabilities, AFIPS Spring Joint Computer Conference, 1967"
    )
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("parallel_s", "s", "line", "p: of one node's step, what further nodes share"),
        Parameter("serial_s", "s", "line", "q: of one node's step, what stays serial"),
    )

    def step_s(self, p: Values, at: At) -> Value:
        """Return p + q·n."""
        return p["parallel_s"] + p["serial_s"] * at.nodes


@dataclass(frozen=True)
class Usl(Law):
    """t = a·(1 + σ(n−1) + κn(n−1)): the universal scalability law.

    Of a job: its speed is n/(1 + σ(n−1) + κn(n−1)) times that of one node. σ is contention for what
    is shared, κ the coherency that every pair of nodes costs: with κ > 0 a job has a best number of
    nodes. With κ = 0 it is Amdahl's law.
    """

    name: ClassVar[str] = "usl"
    title: ClassVar[str] = "USL"
    source: ClassVar[str] = (
        "N. J. Gunther, A general theory of computational scalability based on rational functions, "
        "2008, arXiv:0808.1431"
    )
    parameters: ClassVar[tuple[Parameter, ...]] = (
        ONE_NODE,
        Parameter("contention", "1", "line", "σ: what is serial, as a share of one node's step"),
        Parameter("coherency", "1", "line", "κ: what a pair of nodes costs, as such a share"),
    )

    def step_s(self, p: Values, at: At) -> Value:
        """Return a·(1 + σ(n−1) + κn(n−1))."""
        n = at.nodes
        loss = p["contention"] * (n - 1) + p["coherency"] * (n * (n - 1))
        return p["one_node_s"] * (1 + loss)


@dataclass(frozen=True)
class Ernest(Law):
    """t = θ₀ + θ₁·ln n + θ₂·n: what is computed, trees of messages, messages to every node.

    The original adds a term of data per node, which at one batch per worker is a constant like θ₀.
    It is about a job's stages, of which a step is one. Linear in its coefficients.
    """

    name: ClassVar[str] = "ernest"
    title: ClassVar[str] = "Ernest"
    source: ClassVar[str] = (
        "S. Venkataraman et al., Ernest: Efficient performance prediction for large-scale advanced "
        "analytics, NSDI 2016"
    )
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("constant_s", "s", "line", "θ₀: what does not depend on nodes"),
        Parameter("log_s", "s", "line", "θ₁: a level of a tree, times log₂e"),
        Parameter("per_node_s", "s", "line", "θ₂: what every node adds"),
    )

    def step_s(self, p: Values, at: At) -> Value:
        """Return θ₀ + θ₁·ln n + θ₂·n."""
        return p["constant_s"] + p["log_s"] * np.log(at.nodes) + p["per_node_s"] * at.nodes


@dataclass(frozen=True)
class Pollux(Law):
    """t = (gᵞ + (s + r(n−2))ᵞ)^(1/γ), g on one node: gradient and synchronisation, overlapped.

    γ lies between 1, no overlap, and 10, nearly as short as the longer of both; its authors fit it
    so. It is put as γ = 1 + 9x/(1 + x), so that x need only be at least 0. The original's gradient
    time grows with the batch; at one batch it is the constant g.
    """

    name: ClassVar[str] = "pollux"
    title: ClassVar[str] = "Pollux"
    source: ClassVar[str] = (
        "A. Qiao et al., Pollux: Co-adaptive cluster scheduling for goodput-optimized deep "
        "learning, OSDI 2021"
    )
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("gradient_s", "s", "line", "g: computing the gradient"),
        Parameter("sync_s", "s", "line", "s: synchronising two nodes"),
        Parameter("sync_per_node_s", "s", "line", "r: synchronising a node further"),
        Parameter("overlap_excess", "1", "line", "x: overlap; 0 is none"),
    )

    def step_s(self, p: Values, at: At) -> Value:
        """Return (gᵞ + (s + r(n−2))ᵞ)^(1/γ), or g on one node."""
        further = np.maximum(at.nodes - 2, 0.0)
        sync = (p["sync_s"] + p["sync_per_node_s"] * further) * (at.nodes > 1)
        excess = p["overlap_excess"]
        return overlapped(p["gradient_s"], sync, 1 + 9 * excess / (1 + excess))


@dataclass(frozen=True)
class PowerLaw(Law):
    """t = a·nᵏ, k ≥ 0: a step never gets shorter by nodes; of a job, T(n) = T(1)·nᵏ⁻¹."""

    name: ClassVar[str] = "power"
    title: ClassVar[str] = "Power law"
    source: ClassVar[str] = "a straight line of logarithms over the nodes"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        ONE_NODE,
        Parameter("exponent", "1", "line", "k: 0 where nodes cost nothing, 1 where they gain none"),
    )

    def step_s(self, p: Values, at: At) -> Value:
        """Return a·nᵏ."""
        return p["one_node_s"] * at.nodes ** p["exponent"]


@dataclass(frozen=True)
class Linear(Law):
    """t = a + k·(n−1): each further node adds the same, as if one after another were served.

    The baseline of those who read no law. Where nodes make a job shorter it is Amdahl's line; only
    this one can say that they make it longer (k > a).
    """

    name: ClassVar[str] = "linear"
    title: ClassVar[str] = "Straight line"
    source: ClassVar[str] = "a straight line over the nodes"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        ONE_NODE,
        Parameter("per_node_s", "s", "line", "k: what each further node adds"),
    )

    def step_s(self, p: Values, at: At) -> Value:
        """Return a + k·(n−1)."""
        return p["one_node_s"] + p["per_node_s"] * (at.nodes - 1)


_BASELINES: tuple[type[Law], ...] = (Amdahl, Usl, Ernest, Pollux, PowerLaw, Linear)

BASELINES = tuple(law.name for law in _BASELINES)
"""Names of the baselines."""

_LAWS: tuple[type[Law], ...] = (
    formulas.NoExchange,
    formulas.RingAllReduce,
    formulas.HalvingDoubling,
    formulas.BinomialTree,
    formulas.Star,
    parameter_server.ParameterServerBound,
    parameter_server.ParameterServer,
    formulas.ParameterAveraging,
    formulas.CompressedAllGather,
    formulas.GPipe,
    *_BASELINES,
)

LAWS: Mapping[str, type[Law]] = {law.name: law for law in _LAWS}
"""The laws by name. Those of parameter averaging, compression and pipelines have fields to give."""

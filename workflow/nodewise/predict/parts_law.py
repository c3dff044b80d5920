"""Laws of steps whose parts can be measured separately: compute, wait, input and communicate."""

from dataclasses import dataclass
from typing import ClassVar

import sympy
from sympy import Expr

from nodewise.predict.law import LAWS, PARTS, Law, Parameter, b, in_order, n

COMPUTE: tuple[Parameter, ...] = (
    Parameter("c_0", "compute_fixed_s", "s", "model", "computing per step"),
    Parameter("c_1", "compute_per_example_s", "s", "model", "computing per example"),
)
JITTER: tuple[Parameter, ...] = (
    Parameter(
        "sigma",
        "jitter_s",
        "s",
        "model",
        "jitter (standard deviation) of a node's time",
        shrink=0.05,
    ),
    Parameter(
        "v",
        "jitter_share",
        "1",
        "link",
        "further jitter, relative to the computing time",
        shrink=0.05,
    ),
)
EXCESS_INPUT = Parameter(
    "e",
    "input_per_example_s",
    "s",
    "model",
    "reading an example that another node trains on",
    shrink=0.10,
)
LINK: tuple[Parameter, ...] = (
    Parameter("alpha", "latency_s", "s", "link", "latency per message"),
    Parameter("beta", "seconds_per_byte", "s/B", "link", "inverse bandwidth"),
)

c_0, c_1 = (p.symbol for p in COMPUTE)
sigma, v = (p.symbol for p in JITTER)
alpha, beta = (p.symbol for p in LINK)


@dataclass(frozen=True)
class PartsLaw(Law):
    """t = compute + wait + input + communicate, where each part can be measured.

    - compute = c₀ + c₁·b.
    - wait = (σ + v·compute)·m_n. The times of n nodes have a standard deviation of σ + v·compute.
      The slowest node is expected m_n standard deviations above the mean: m_n is the mean of the
      largest of n standard normal values (H. A. David and H. N. Nagaraja, Order Statistics, 3rd
      ed., 2003). `slowest` approximates it to 0.1 % up to 65,536 nodes.
    - input = e·b·(n − 1), the cost of an input pipeline that is not sharded, in which each node
      reads the examples of all nodes. It is 0 if the pipeline is sharded.
    - communicate depends on the law.

    In tables, `wait_bound` names a step whose largest part is `wait`.
    """

    parameters: ClassVar[tuple[Parameter, ...]] = (*COMPUTE, *JITTER, EXCESS_INPUT, *LINK)
    wait_bound: ClassVar[str] = "straggler-bound"
    slowest: ClassVar[Expr] = (
        0.872
        * sympy.log(n)
        / sympy.sqrt(1 + 0.421 * sympy.log(n) - 0.175 * sympy.sqrt(sympy.log(n)))
    )
    compute: ClassVar[Expr] = c_0 + c_1 * b
    wait: ClassVar[Expr] = (sigma + v * PARTS["compute"]) * PARTS["slowest"]
    input: ClassVar[Expr] = EXCESS_INPUT.symbol * b * (n - 1)
    communicate: ClassVar[Expr]
    step = in_order(PARTS["compute"], PARTS["wait"], PARTS["input"], PARTS["communicate"])


def baselines() -> tuple[str, ...]:
    """Return the names of the baselines: laws that do not model how nodes exchange data."""
    return tuple(name for name, law in LAWS.items() if not issubclass(law, PartsLaw))

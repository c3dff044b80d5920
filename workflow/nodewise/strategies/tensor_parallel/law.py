"""The law of the step time with split pairs of dense layers. Nothing is fitted to it.

It is shown on the strategy's page.
"""

from dataclasses import dataclass
from typing import ClassVar

from sympy import Expr

from nodewise.predict.law import Parameter, S, b, in_order, n, positive, setting
from nodewise.predict.laws.ring import RingAllReduce
from nodewise.predict.parts_law import COMPUTE, JITTER, LINK, SHARDED_STEP, PartsLaw, c_0, c_1

x, a, s = positive("x"), positive("a"), positive("s")


@dataclass(frozen=True)
class Step(PartsLaw):
    """Every node computes the global batch, but only its share of split layers; sums are rings."""

    exchanges: int = setting(
        "x", "1", "exchanges of activations per step, forward and backward", least=0
    )
    exchanged_bytes: float = setting("a", "B", "activations per exchange", least=0)
    split_share: float = setting("s", "1", "share of the computing that is split", least=0)

    title: ClassVar[str] = "Split pairs of dense layers"
    source: ClassVar[str] = (
        "M. Shoeybi et al., Megatron-LM: Training multi-billion parameter language models using "
        "model parallelism, 2019, arXiv:1909.08053, section 3"
    )
    parameters: ClassVar[tuple[Parameter, ...]] = (*COMPUTE[:2], *JITTER, *LINK)
    compute: ClassVar[Expr] = in_order(c_0, c_1 * n * b * in_order(1 - s, s / n))
    wait: ClassVar[Expr] = x * PartsLaw.wait
    communicate: ClassVar[Expr] = x * RingAllReduce.communicate.subs(S, a)
    step: ClassVar[Expr] = SHARDED_STEP

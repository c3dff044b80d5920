"""The law of the step time with split dense layers, for its page. Nothing is fitted to it."""

from dataclasses import dataclass
from typing import ClassVar

from sympy import Expr

from nodewise.predict.law import Parameter, S, n, positive, setting
from nodewise.predict.parts_law import COMPUTE, JITTER, LINK, SHARDED_STEP, PartsLaw, alpha, beta

x, a, z = positive("x"), positive("a"), positive("z")


@dataclass(frozen=True)
class Step(PartsLaw):
    """Eight exchanges per split layer, and one all-reduce of all other gradients."""

    split_layers: int = setting("x", "1", "layers that are split", least=0)
    exchanged_bytes: float = setting(
        "a",
        "B",
        "inputs of split layers for a worker's examples, and their outputs for all examples",
        least=0,
    )
    split_bytes: float = setting("z", "B", "gradient of the weights that are split", least=0)

    title: ClassVar[str] = "Split dense layers"
    source: ClassVar[str] = (
        "A. Krizhevsky, One weird trick for parallelizing convolutional neural networks, 2014, "
        "arXiv:1404.5997"
    )
    parameters: ClassVar[tuple[Parameter, ...]] = (*COMPUTE, *JITTER, *LINK)
    communicate: ClassVar[Expr] = (8 * x + 2) * alpha + 2 * (n - 1) / n * (a + S - z) * beta
    step: ClassVar[Expr] = SHARDED_STEP

"""The pipeline of micro-batches."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import pandas as pd
import sympy

from nodewise.predict.law import LAWS, PARTS, b, in_order, n, positive, setting
from nodewise.predict.parts_law import COMPUTE, EXCESS_INPUT, LINK, PartsLaw, alpha, beta, c_0

m, a = positive("m"), positive("a")


@LAWS.register
@dataclass(frozen=True)
class GPipe(PartsLaw):
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
    compute = in_order(PartsLaw.compute, (m - 1) * c_0)
    wait = (n - 1) / m * PARTS["compute"]
    wait_bound = "bubble-bound"
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

"""Parameter averaging every few steps."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import sympy

from nodewise.predict.law import LAWS, Law, positive, setting
from nodewise.predict.laws.all_reduces import RingAllReduce
from nodewise.predict.parts_law import PartsLaw

tau = positive("tau")


@LAWS.register
@dataclass(frozen=True)
class ParameterAveraging(PartsLaw):
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
    wait = PartsLaw.wait / sympy.sqrt(tau)
    communicate = RingAllReduce.communicate / tau

    @classmethod
    def of_curve(cls, options: Mapping[str, Any], rows: pd.DataFrame) -> Law | None:
        """Return the law, or None if the period is an epoch, whose steps depend on the batch."""
        return None if options.get("period") == "epoch" else super().of_curve(options, rows)

"""The rules by which claims are judged; the modules of this folder register them.

A rule is a function of the tables of results, the tables of the fits and a claim's settings. It
returns comparisons, one per row. A comparison speaks for the claim if its whole interval, from
`low` to `high`, is above `least` and below `most`. To add a rule, write a function in a module of
this folder, decorate it with `@claim_rule`, and name the rule in a study.yaml.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from nodewise.core.registry import Registry
from nodewise.results.comparisons import ALIKE

Rule = Callable[..., pd.DataFrame]

CLAIM_RULES: Registry[Rule] = Registry("claim rule", "nodewise.report.claim_rules")

_DEFAULTS: dict[str, Any] = {
    **{"least": -np.inf, "most": np.inf, "lacks": "", "at": "", "own": False},
    **{"label": "", "cell_id": ""},
}
_COLUMNS = ["value", "low", "high", *_DEFAULTS]


def claim_rule(name: str) -> Callable[[Rule], Rule]:
    """Register the decorated function as the rule `name`."""

    def register(rule: Rule) -> Rule:
        CLAIM_RULES.add(name, rule)
        return rule

    return register


def complete(rows: pd.DataFrame) -> pd.DataFrame:
    """Return comparisons with all columns of a rule's result, in order.

    Columns that are missing are filled: no limits (`least`, `most`), nothing lacking (`lacks`), no
    place (`at`), not computed from numbers of the study itself (`own`).
    """
    missing = {name: value for name, value in _DEFAULTS.items() if name not in rows}
    return rows.assign(**missing).reindex(columns=_COLUMNS).reset_index(drop=True)


def beside(rows: pd.DataFrame, way: str, than: str, by: str = "strategy") -> pd.DataFrame:
    """Join the points of one strategy with those of another that are equal in all else.

    Columns of the points of `than` have the suffix `_other`. Points of two values of another column
    `by` than the strategy may be of two experiments.
    """
    alike = [*ALIKE, "nodes", "strategy"] if by != "strategy" else [*ALIKE, "nodes"]
    alike = [name for name in alike if by == "strategy" or name != "experiment"]
    one, other = (rows[rows[by] == name] for name in (way, than))
    return one.merge(other, "inner", alike, suffixes=("", "_other"))

"""Judge the claims of published studies by the tables of results.

A claim names one of `CLAIM_RULES` and the settings of that rule. The rule returns comparisons. The
verdict follows from the intervals of those that count as evidence (`nodewise.report.evidence`).
"""

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import Field, StringConstraints, TypeAdapter

from nodewise.core.cell import Frozen
from nodewise.core.errors import UserError
from nodewise.core.schema import read_yaml
from nodewise.report import evidence
from nodewise.report.claim_rules import CLAIM_RULES, complete
from nodewise.results.published import FOLDER
from nodewise.results.queries import Tables

CLAIMS = FOLDER / "claims.yaml"

Verdict = Literal["agrees", "disagrees", "too little evidence"]
Text = Annotated[str, StringConstraints(min_length=1)]


class Claim(Frozen):
    """A claim of a published study.

    Attributes:
        study: the study that makes the claim.
        says: the claim in our words.
        where: where the study says it.
        decided_by: the rule in words.
        rule: the name of the rule, one of `CLAIM_RULES`.
        settings: the arguments of the rule.
        unit: the unit of the values that the rule compares.
    """

    study: Text
    says: Text
    where: Text
    decided_by: Text
    rule: Text
    settings: dict[str, Any] = Field(default_factory=dict)
    unit: Literal["×", "share"] = "×"


@dataclass(frozen=True)
class Judged:
    """A claim with all comparisons that its rule made, including those that do not count.

    `comparisons` has the columns that `claim_rules.complete` returns.
    """

    claim: Claim
    comparisons: pd.DataFrame

    @property
    def counting(self) -> pd.DataFrame:
        """The comparisons that count as evidence."""
        return evidence.select(self.comparisons)

    @property
    def speaking(self) -> tuple[int, int, int]:
        """How many counting comparisons speak for the claim, against it, and for neither.

        A comparison speaks for the claim if its whole interval is inside the limits, and against it
        if the whole interval is outside, on one side.
        """
        rows = self.counting
        pro = int(((rows["low"] > rows["least"]) & (rows["high"] < rows["most"])).sum())
        contra = int(((rows["high"] < rows["least"]) | (rows["low"] > rows["most"])).sum())
        return pro, contra, len(rows) - pro - contra

    @property
    def verdict(self) -> Verdict:
        """The verdict on the claim.

        Claims are general, so one comparison against a claim is enough to disagree.
        """
        pro, contra, _ = self.speaking
        return "disagrees" if contra else "agrees" if pro else "too little evidence"

    @property
    def needs(self) -> str:
        """A sentence that says what would settle the claim; empty if it is settled."""
        if self.verdict != "too little evidence":
            return ""
        if len(self.counting):
            return "The intervals leave it open: more launches of each point are needed."
        return evidence.needs(self.comparisons)


def judge_claims(tables: Tables, overhead: Tables) -> list[Judged]:
    """Return every claim with the comparisons that its rule makes.

    Args:
        tables: the tables of results, by name.
        overhead: the tables of the fits, by name.

    Raises:
        UserError: the file of the claims is missing or invalid.
    """
    return [
        Judged(claim, complete(CLAIM_RULES[claim.rule](tables, overhead, **claim.settings)))
        for claim in read_claims()
    ]


def read_claims(path: Path = CLAIMS) -> list[Claim]:
    """Read and check the claims.

    Raises:
        UserError: the file is missing, a claim is invalid, its rule is unknown, or its settings are
            not those of the rule.
    """
    claims = read_yaml(TypeAdapter(list[Claim]), path)
    unknown = sorted({claim.rule for claim in claims} - set(CLAIM_RULES))
    if unknown:
        raise UserError(f"{path}: unknown rule {unknown[0]}; rules: {', '.join(CLAIM_RULES)}")
    for claim in claims:
        try:
            inspect.signature(CLAIM_RULES[claim.rule]).bind(None, None, **claim.settings)
        except TypeError as error:
            raise UserError(f"{path}: settings of rule {claim.rule}: {error}") from error
    return claims

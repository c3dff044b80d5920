"""What the studies claim, and what our tables say of it.

A claim names one of `CLAIM_RULES` and its settings. The rule returns comparisons; those that count
by the rule of evidence (`nodewise.report.evidence`) decide, by their intervals.
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
from nodewise.results.importers.published import FOLDER
from nodewise.results.queries import Tables

CLAIMS = FOLDER / "claims.yaml"

Verdict = Literal["agrees", "disagrees", "too little evidence"]
Text = Annotated[str, StringConstraints(min_length=1)]


class Claim(Frozen):
    """A claim: `says`, in our words, `where` in the `study`; `decided_by` is the rule in words."""

    study: Text
    says: Text
    where: Text
    decided_by: Text
    rule: Text
    settings: dict[str, Any] = Field(default_factory=dict)
    unit: Literal["×", "share"] = "×"


@dataclass(frozen=True)
class Judged:
    """A claim with all comparisons of its rule, those that do not count included.

    `comparisons` has the columns that `claim_rules.complete` returns.
    """

    claim: Claim
    comparisons: pd.DataFrame

    @property
    def counting(self) -> pd.DataFrame:
        """The comparisons that count by the rule of evidence."""
        return evidence.select(self.comparisons)

    @property
    def speaking(self) -> tuple[int, int, int]:
        """How many of those that count speak for the claim, against it, and neither."""
        rows = self.counting
        pro = int(((rows["low"] > rows["least"]) & (rows["high"] < rows["most"])).sum())
        contra = int(((rows["high"] < rows["least"]) | (rows["low"] > rows["most"])).sum())
        return pro, contra, len(rows) - pro - contra

    @property
    def verdict(self) -> Verdict:
        """What follows. Claims are general: one comparison that speaks against it is enough."""
        pro, contra, _ = self.speaking
        return "disagrees" if contra else "agrees" if pro else "too little evidence"

    @property
    def needs(self) -> str:
        """What would settle the claim, in a sentence; empty if it is settled."""
        if self.verdict != "too little evidence":
            return ""
        if len(self.counting):
            return "The intervals leave it open: more launches of each point are needed."
        return evidence.needs(self.comparisons)


def judge_claims(tables: Tables, overhead: Tables) -> list[Judged]:
    """Return every claim with its comparisons.

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
        UserError: the file is missing, or a claim is invalid, names no rule or not its settings.
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

"""Judge the claims of published studies by the tables of results.

A claim names one of `CLAIM_RULES` and the settings of that rule. The rule returns comparisons. The
verdict follows from the intervals of those that count as evidence (`nodewise.report.evidence`).
"""

import inspect
from dataclasses import dataclass

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.report import evidence
from nodewise.report.claim_rules import CLAIM_RULES, complete
from nodewise.results import studies
from nodewise.results.queries import Tables
from nodewise.results.studies import Claim

AGREES, CONTRADICTS = "agrees", "contradicts"
FOLLOWS, OPEN = "follows from the study's own numbers", "too little evidence"
VERDICTS = (AGREES, CONTRADICTS, FOLLOWS, OPEN)


@dataclass(frozen=True)
class Judged:
    """A claim with all comparisons that its rule made, including those that do not count.

    `comparisons` has the columns that `claim_rules.complete` returns.
    """

    study: str
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
    def verdict(self) -> str:
        """The verdict on the claim, one of `VERDICTS`.

        Claims are general, so one comparison against a claim is enough to contradict it. Numbers of
        the study itself never agree with it: its claim follows from them if the value does.
        """
        pro, contra, _ = self.speaking
        rows = self.counting
        if contra:
            return CONTRADICTS
        if len(rows) and rows["own"].all():
            follows = rows["value"].between(rows["least"], rows["most"]).all()
            return FOLLOWS if follows else OPEN
        return AGREES if pro else OPEN

    @property
    def needs(self) -> str:
        """A sentence that says what would settle the claim; empty if it is settled."""
        if self.verdict != OPEN:
            return ""
        if len(self.counting):
            return "The intervals leave it open: more launches of each point are needed."
        return evidence.needs(self.comparisons)


def judge_claims(tables: Tables, overhead: Tables) -> list[Judged]:
    """Return every claim of every study with the comparisons that its rule makes.

    Args:
        tables: the tables of results, by name.
        overhead: the tables of the fits, by name.

    Raises:
        UserError: the file of a study is invalid, a rule is unknown, or settings are not those of
            the rule.
    """
    return [
        Judged(name, claim, _compare(name, claim, tables, overhead))
        for name, study in studies.studies().items()
        for claim in study.claims
    ]


def _compare(name: str, claim: Claim, tables: Tables, overhead: Tables) -> pd.DataFrame:
    path = studies.FOLDER / name / studies.STUDY
    if claim.rule not in CLAIM_RULES:
        raise UserError(f"{path}: unknown rule {claim.rule}; rules: {', '.join(CLAIM_RULES)}")
    rule = CLAIM_RULES[claim.rule]
    try:
        inspect.signature(rule).bind(None, None, **claim.settings)
    except TypeError as error:
        raise UserError(f"{path}: settings of rule {claim.rule}: {error}") from error
    return complete(rule(tables, overhead, **claim.settings))

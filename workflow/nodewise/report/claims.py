"""What the studies claim, and what our tables say of it.

A claim names a rule of `RULES` and its settings. A rule returns comparisons: each has a `value`,
which is shown, and a `margin`, which decides: above 1 speaks for the claim, below 1 against it, and
as near to 1 as the claim's `near` decides nothing. The verdict follows from the margins alone.
Points with a caution decide nothing, but of bytes; nor do published ones, but for what a formula
that was fitted to a published table predicts.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from pydantic import Field, StringConstraints, TypeAdapter

from nodewise.core.cell import Frozen
from nodewise.core.errors import UserError
from nodewise.core.schema import read_yaml
from nodewise.predict import comparisons
from nodewise.predict.queries import GROUP, Tables, scaling_lines, with_labels
from nodewise.results.importers.published import FOLDER
from nodewise.results.tables import OVERSUBSCRIBED

CLAIMS = FOLDER / "claims.yaml"

Verdict = Literal["agrees", "disagrees", "mixed", "undecided", "not measured"]
Text = Annotated[str, StringConstraints(min_length=1)]

_WIDE = 0.2  # of the time: an interval wider than this holds too much to agree with anything
_COLUMNS = ["value", "margin", "label", "cell_id", "at"]
_POINT = [*GROUP, "cluster", "label", "whole_epochs", "batch_per_worker"]


class Claim(Frozen):
    """A claim: `says`, in our words, `where` in the `study`; `decided_by` is the rule in words."""

    study: Text
    says: Text
    where: Text
    decided_by: Text
    rule: Text
    settings: dict[str, Any] = Field(default_factory=dict)
    unit: Literal["×", "share"] = "×"
    near: Annotated[float, Field(ge=0, lt=1)] = 0.05


@dataclass(frozen=True)
class Judged:
    """A claim with the comparisons that decide it: their `value`, `margin`, `label`, `cell_id`.

    `at` says which points a comparison is of, where a claim is about two sorts; else it is empty.
    """

    claim: Claim
    comparisons: pd.DataFrame

    @property
    def speaking(self) -> tuple[int, int, int]:
        """How many comparisons speak for the claim, against it, and neither."""
        margin = self.comparisons["margin"]
        pro = int((margin > 1 + self.claim.near).sum())
        contra = int((margin < 1 - self.claim.near).sum())
        return pro, contra, len(margin) - pro - contra

    @property
    def verdict(self) -> Verdict:
        """What follows: all that decide must speak the same way."""
        pro, contra, _ = self.speaking
        if self.comparisons.empty:
            return "not measured"
        if not pro and not contra:
            return "undecided"
        return "mixed" if pro and contra else "agrees" if pro else "disagrees"


def judged(tables: Tables, overhead: Tables, path: Path = CLAIMS) -> list[Judged]:
    """Return every claim with its comparisons.

    Raises:
        UserError: the file of the claims is missing or misfit.
    """
    return [
        Judged(claim, _known(RULES[claim.rule](tables, overhead, **claim.settings)))
        for claim in read_claims(path)
    ]


def _known(rows: pd.DataFrame) -> pd.DataFrame:
    return (rows if "at" in rows else rows.assign(at=""))[_COLUMNS]


def read_claims(path: Path = CLAIMS) -> list[Claim]:
    """Read and check the claims.

    Raises:
        UserError: the file is missing, or a claim is misfit, names no rule or not its settings.
    """
    claims = read_yaml(TypeAdapter(list[Claim]), path)
    unknown = sorted({claim.rule for claim in claims} - set(RULES))
    if unknown:
        raise UserError(f"{path}: unknown rule {unknown[0]}; rules: {', '.join(RULES)}")
    for claim in claims:
        try:
            inspect.signature(RULES[claim.rule]).bind(None, None, **claim.settings)
        except TypeError as error:
            raise UserError(f"{path}: settings of rule {claim.rule}: {error}") from error
    return claims


def _batch_decides(tables: Tables, _: Tables, *, study: str, models: Sequence[str]) -> pd.DataFrame:
    """The speed-up at the largest batch of a line, against one; below one at its smallest."""
    rows = comparisons.fair(comparisons.on_several_nodes(tables["curves"]))
    rows = rows[(rows["study"] == study) & rows["model"].isin(models)]
    found = []
    for _key, line in rows.groupby([*GROUP, "cluster", "line", "label", "nodes"]):
        if line["batch_per_worker"].nunique() > 1:
            ends = line.sort_values("batch_per_worker").iloc[[0, -1]]
            small, large = ends["speedup"]
            at = ["at the smallest batch", "at the largest batch"]
            found.append(ends.assign(value=ends["speedup"], margin=[1 / small, large], at=at))
    return _joined(found)


def _more_nodes(tables: Tables, _: Tables, *, study: str, counts: Sequence[int]) -> pd.DataFrame:
    """The throughput on one count of nodes over that on the count before it."""
    rows = comparisons.fair(with_labels(scaling_lines(tables["curves"])))
    rows = rows[rows["study"] == study]
    found = []
    for before, after in pairwise(counts):
        pair = rows[rows["nodes"] == after].merge(
            rows[rows["nodes"] == before], "inner", [*_POINT, "line"], suffixes=("", "_before")
        )
        ratio = pair["examples_per_s"] / pair["examples_per_s_before"]
        found.append(pair.assign(value=ratio, margin=ratio))
    return _joined(found)


def _saves(_: Tables, overhead: Tables, *, study: str, nodes: int, share: float) -> pd.DataFrame:
    """The share of the time that the formula, fitted to the study's own table, says is saved.

    The claimed share is to be inside of its interval, which decides nothing if it is a wide one.
    """
    savings = overhead["savings"]
    mean = savings[(savings["study"] == study) & (savings["model"] == "")]
    there = mean[mean["nodes"] == nodes]
    inside = there["low"].le(share) & there["high"].ge(share)
    wide = there["high"] - there["low"] > _WIDE
    return there.assign(
        value=there["saved"],
        margin=np.where(~inside, 0.0, np.where(wide, 1.0, np.inf)),
        label=there["kind"],
        cell_id="",
    )


def _keeps_accuracy(tables: Tables, _: Tables, *, study: str, loss: float) -> pd.DataFrame:
    """Our training accuracy over that on one node; it may be at most `loss` below it.

    Of each model and number of nodes it is that at the batch which loses least, among those at
    which several nodes were faster than one.
    """
    rows = comparisons.accuracies(tables)
    rows = rows[(rows["label"] != "published") & (rows["study"] == study)]
    curves = tables["curves"]  # of a restless machine, too, but not of too few cores
    crowded = curves["flags"].str.contains(OVERSUBSCRIBED, regex=False)
    faster = curves.loc[~crowded & (curves["speedup"] > 1), ["cell_id"]]
    rows = rows.merge(faster, "inner", "cell_id").dropna(subset="train_change")
    rows = rows.sort_values("train_change", kind="stable", ascending=False)
    best = rows.drop_duplicates(["experiment", "model", "strategy", "nodes"])
    return best.assign(
        value=best["train_accuracy"] / best["train_accuracy_one"],
        margin=1 + best["train_change"] + loss,
    )


def _as_accurate(tables: Tables, _: Tables, *, way: str, than: str, loss: float) -> pd.DataFrame:
    """Our test accuracy over that of another way on the same nodes; at most `loss` below it."""
    rows = with_labels(tables["curves"][tables["curves"]["whole_epochs"]])
    rows = rows[rows["nodes"] > 1].dropna(subset="test_accuracy")
    pair = _beside(rows, way, than)
    change = pair["test_accuracy"] - pair["test_accuracy_other"]
    ratio = pair["test_accuracy"] / pair["test_accuracy_other"]
    return pair.assign(value=ratio, margin=1 + change + loss, label=pair["accuracy_label"])


def _below_linear(tables: Tables, _: Tables, *, study: str, strategy: str) -> pd.DataFrame:
    """The speed-up, which must be both above one and below the number of devices.

    Emulated devices have a quota each, which one process uses as it likes: only measured ones tell.
    """
    rows = comparisons.fair(with_labels(tables["curves"]))
    rows = rows[rows["kind"] == "measured"]
    rows = rows[(rows["study"] == study) & (rows["strategy"] == strategy) & (rows["nodes"] > 1)]
    rows = rows.dropna(subset="speedup")
    above, below = rows["speedup"], rows["nodes"] / rows["speedup"]
    return rows.assign(value=above, margin=np.minimum(above, below))


def _faster(
    tables: Tables, _: Tables, *, way: str, than: str, study: str | None = None
) -> pd.DataFrame:
    """The throughput of a way over that of another, on the same nodes with the same batch."""
    pair = _pairs(tables, way, than, study)
    ratio = pair["examples_per_s"] / pair["examples_per_s_other"]
    return pair.assign(value=ratio, margin=ratio)


def _faster_than_one(tables: Tables, _: Tables, *, study: str, way: str) -> pd.DataFrame:
    """The throughput of a way on several nodes over that of `single`."""
    rows = comparisons.fair(comparisons.compared_ways(tables["curves"]))
    rows = rows[(rows["study"] == study) & (rows["strategy"] == way)]
    rows = rows.dropna(subset="against_one")
    return rows.assign(value=rows["against_one"], margin=rows["against_one"])


def _staleness(tables: Tables, _: Tables, *, strategy: str, tolerance: float) -> pd.DataFrame:
    """The mean staleness over the number of other workers: one, within `tolerance`."""
    noted = tables["observations"]
    noted = noted[noted["observation"] == "staleness"]
    cells = with_labels(comparisons.fair(tables["cells"]))
    cells = cells[(cells["strategy"] == strategy) & (cells["nodes"] > 1)]
    rows = noted.merge(cells, "inner", "cell_id")
    point = ["options", *_POINT, "nodes"]
    rows = rows.groupby(point, as_index=False).agg({"mean": "mean", "cell_id": "first"})
    ratio = rows["mean"] / (rows["nodes"] - 1)
    return rows.assign(value=ratio, margin=1 + tolerance - (ratio - 1).abs())


def _lowers_traffic(
    tables: Tables, _: Tables, *, way: str, than: str, times: float
) -> pd.DataFrame:
    """The bytes that another way sends per step over those of this one, against so many times."""
    curves = with_labels(tables["curves"])  # a restless machine sends no other bytes
    pair = _beside(curves[curves["nodes"] > 1], way, than)
    pair = pair[pair["bytes_sent_per_step"] > 0]
    ratio = pair["bytes_sent_per_step_other"] / pair["bytes_sent_per_step"]
    return pair.assign(value=ratio, margin=ratio / times)


def _pairs(tables: Tables, way: str, than: str, study: str | None) -> pd.DataFrame:
    """Return the points of one way on several nodes beside those of another (`…_other`)."""
    rows = comparisons.fair(with_labels(tables["curves"]))
    return _beside(rows[(rows["nodes"] > 1) & (study is None or rows["study"] == study)], way, than)


def _beside(rows: pd.DataFrame, way: str, than: str) -> pd.DataFrame:
    one, other = (rows[rows["strategy"] == name] for name in (way, than))
    return one.merge(other, "inner", [*_POINT, "nodes"], suffixes=("", "_other"))


def _joined(found: Sequence[pd.DataFrame]) -> pd.DataFrame:
    known = [_known(rows) for rows in found if len(rows)]
    return pd.concat(known) if known else pd.DataFrame(columns=_COLUMNS, dtype="float64")


RULES: dict[str, Callable[..., pd.DataFrame]] = {
    "batch_decides": _batch_decides,
    "more_nodes": _more_nodes,
    "saves": _saves,
    "keeps_accuracy": _keeps_accuracy,
    "as_accurate": _as_accurate,
    "below_linear": _below_linear,
    "faster": _faster,
    "faster_than_one": _faster_than_one,
    "staleness": _staleness,
    "lowers_traffic": _lowers_traffic,
}

"""Group the points that are fitted together: those with the same law and the same link.

All curves over one link of one machine share latency and bandwidth, and all batches of one curve
share the cost of an example. Rows keep the columns that say whether they may be fitted.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from nodewise.core.exchanges import EXCHANGES, exchanges_where
from nodewise.predict.law import LAWS, Law, law_text
from nodewise.predict.laws.all_reduces import RingAllReduce
from nodewise.predict.points import Points
from nodewise.results.curves import USUAL, Curve, Measured

ABOUT = ("curve", "study", "experiment", "model", "strategy")
"""The columns that identify a row's curve in every table."""
_PARTS = {"compute_s": "compute", "wait_s": "wait", "communicate_s": "communicate"}


@dataclass(frozen=True)
class CurveGroup:
    """Curves with the same law and link. `rows` are their rows of the table of points."""

    law: Law
    link: str
    rows: pd.DataFrame

    @property
    def first(self) -> "pd.Series[Any]":
        """The first row, for what all rows have in common: kind, study, strategy, cluster."""
        return self.rows.iloc[0]

    @property
    def fitted(self) -> "CurveGroup":
        """The group with only the rows to fit."""
        return self.where(self.rows["fitted"])

    def about(self, row: "pd.Series[Any]") -> dict[str, Any]:
        """Return the columns that every table has about the curve of `row`."""
        return {name: row[name] for name in ABOUT} | {
            "source": row["kind"],
            "data_origin": row["data_origin"],
            "law": self.law.name,
        }

    def where(self, mask: "pd.Series[bool]") -> "CurveGroup":
        """Return the group with the rows at which `mask` is true."""
        return replace(self, rows=self.rows[mask])

    def points(self, *, parts: bool = True) -> Points:
        """Return the rows as points; without `parts`, with whole steps and noise only."""
        names = ["nodes", "batch_per_worker", "payload_bytes", "step_time_s", "noise"]
        names += _PARTS if parts else ()
        values = self.rows[names].to_numpy(float).T
        measured = dict(zip(names[4:], values[4:], strict=True))
        model = self.rows["curve"].to_numpy(str)
        return Points.of(*values[:4], model=model, link=self.link, **measured)


def curves_of(group: CurveGroup) -> list[Curve]:
    """Return the curves of a group with their fitted points, in the form of a fit.json."""
    found = []
    for name, rows in group.fitted.rows.groupby("curve", sort=False):
        columns = rows[["nodes", "batch_per_worker", "step_time_s", "noise", *_PARTS]]
        known = columns.rename(columns=_PARTS | {"step_time_s": "step_time"}).astype(object)
        measured = known.where(columns.notna().to_numpy(), None).to_dict("records")
        payload = float(rows["payload_bytes"].median())
        per_machine = float(rows["nodes_per_machine"].max())
        found.append(
            Curve(
                name=str(name),
                collective=law_text(group.law),
                clock="step_time_s",
                measured=tuple(Measured.model_validate({**row, "repeats": 1}) for row in measured),
                cluster=group.link,
                devices_per_host=per_machine if per_machine > 1 else None,
                payload_bytes=payload or None,
            )
        )
    return found


def find_groups(points: pd.DataFrame) -> Iterator[CurveGroup]:
    """Yield the groups of points, in the order of the table.

    Strategies without a law (several devices in one process, several pipelines) are left out.

    Args:
        points: the table of points (`results.curve_points`).
    """
    together: dict[tuple[str, bool, Law], list[str]] = {}
    for curve, of_curve in points.groupby("curve", sort=False):
        first, law = of_curve.iloc[0], law_of(of_curve)
        if law is not None:
            of = (first["link"], first["cluster"] == "", law)
            together.setdefault(of, []).append(str(curve))
    for (link, _, law), names in together.items():
        yield CurveGroup(law, link, points[points["curve"].isin(names)].reset_index(drop=True))


def law_of(rows: pd.DataFrame) -> Law | None:
    """Return the law of one curve, by its exchange or collective; None if there is no such law."""
    own = rows[~rows["exchange"].isin(exchanges_where(lambda one: one.content == "nothing"))]
    if own.empty:
        return RingAllReduce()
    first = own.iloc[0]
    if not first["exchange"]:
        return LAWS.make(first["collective"] or USUAL)
    law = EXCHANGES[first["exchange"]].law
    return LAWS[law].of_curve(json.loads(first["options"] or "{}"), own) if law else None

"""Fit all curves of a table of points, measured or imported.

Points with the same law and the same link are fitted together: all curves over one link of one
machine share latency and bandwidth, and all batches of one curve share the cost of an example. The
law follows from what ran. Rows keep the columns that say whether they may be fitted.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.core.exchanges import EXCHANGES, exchanges_where
from nodewise.core.progress import progress
from nodewise.predict.fit import DRAWS, Fit, Priors, fit
from nodewise.predict.known_links import calibrated_rates, known_of
from nodewise.predict.law import LAWS, Law
from nodewise.predict.points import Points
from nodewise.results.calibration import Calibration
from nodewise.results.curves import TIMED_PARTS, USUAL, Curve, Measured

CURVE = ["source", "study", "experiment", "model", "strategy", "curve"]
"""The columns that every table of fits has about a curve. `source` is the kind of its points."""
LINE = ["curve", "batch_per_worker"]


@dataclass(frozen=True)
class CurveGroup:
    """Curves with the same law and link, which are fitted together.

    Attributes:
        law: the law.
        link: the label of the link.
        priors: what is known of coefficients before the fit.
        rows: the curves' rows of the table of points, with `source` instead of `kind`.
    """

    law: Law
    link: str
    priors: Priors
    rows: pd.DataFrame

    @property
    def fitted(self) -> "CurveGroup":
        """The group with only the rows to fit."""
        return self.where(self.rows["fitted"])

    def where(self, mask: "pd.Series[bool]") -> "CurveGroup":
        """Return the group with the rows at which `mask` is true."""
        return replace(self, rows=self.rows[mask])

    def points(self) -> Points:
        """Return the rows as points."""
        names = ["nodes", "batch_per_worker", "payload_bytes", "step_time_s"]
        measured = {name: self.rows[name].to_numpy(float) for name in ("noise", *TIMED_PARTS)}
        model = self.rows["curve"].to_numpy(str)
        axes = self.rows[names].to_numpy(float).T
        return Points.of(*axes, model=model, link=self.link, **measured)

    def fit(self, draws: int) -> Fit:
        """Fit the law to all rows; see `fit` for the draws."""
        return fit(self.law, self.points(), priors=self.priors, draws=draws)


def fit_curves(
    points: pd.DataFrame, calibrations: Iterable[Calibration] = (), *, draws: int = DRAWS
) -> list[tuple[CurveGroup, Fit]]:
    """Fit all curves. The result is deterministic.

    Args:
        points: the table of points (`results.curve_points`).
        calibrations: calibrations of clusters, for priors on the bandwidth of their links.
        draws: number of equally likely coefficients, from which intervals come.
    """
    fits, done = [], 0
    with progress("fitting curves", points["curve"].nunique()) as show:
        for group in find_groups(points, calibrations):
            fits.append((group, group.fitted.fit(draws)))
            done += group.rows["curve"].nunique()
            show(done)
    return fits


def find_groups(
    points: pd.DataFrame, calibrations: Iterable[Calibration] = ()
) -> Iterator[CurveGroup]:
    """Yield the groups of points that have points to fit, in the order of the table.

    Strategies without a law (several devices in one process, several pipelines) are left out.
    """
    calibrated = calibrated_rates(calibrations)
    points = points.rename(columns={"kind": "source"})
    laws = {str(curve): law_of(rows) for curve, rows in points.groupby("curve", sort=False)}
    named = {curve: law.text for curve, law in laws.items() if law is not None}
    together = [points["link"], points["cluster"] == "", points["curve"].map(named)]
    for _, rows in points.groupby(together, sort=False):
        law, link = laws[str(rows["curve"].iat[0])], str(rows["link"].iat[0])
        if law and rows["fitted"].any():
            priors = known_of(rows, link, calibrated)
            yield CurveGroup(law, link, priors, rows.reset_index(drop=True))


def law_of(rows: pd.DataFrame) -> Law | None:
    """Return the law of one curve, by its exchange or collective; None if there is no such law.

    Raises:
        UserError: there is no law for the collective.
    """
    own = rows[~rows["exchange"].isin(exchanges_where(lambda one: one.content == "nothing"))]
    if own.empty:
        return LAWS["ring"]
    first = own.iloc[0]
    if not first["exchange"]:
        try:
            return LAWS.make(first["collective"] or USUAL)
        except UserError as error:
            raise UserError(f"curve {first['curve']!r}, column collective: {error}") from None
    law = EXCHANGES[first["exchange"]].law
    return LAWS[law].of_curve(json.loads(first["options"] or "{}"), own) if law else None


def curves_of(group: CurveGroup) -> list[Curve]:
    """Return the curves of a group with their fitted points, in the form of a fit.json."""
    found = []
    for name, rows in group.fitted.rows.groupby("curve", sort=False):
        columns = rows[["nodes", "batch_per_worker", "step_time_s", "noise", *TIMED_PARTS]]
        measured = columns.astype(object).where(columns.notna(), None).to_dict("records")
        payload = float(rows["payload_bytes"].median())  # 1 if a user's file does not give it
        per_machine = float(rows["nodes_per_machine"].max())
        found.append(
            Curve(
                name=str(name),
                collective=group.law.text,
                clock="step_time_s",
                measured=tuple(map(Measured.model_validate, measured)),
                cluster=group.link,
                devices_per_host=per_machine if per_machine > 1 else None,
                payload_bytes=payload if payload > 1 else None,
            )
        )
    return found

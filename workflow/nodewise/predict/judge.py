"""Measure the errors of laws on held-out node counts.

Points are held out by node count, never by repeat: further repeats of a fitted point would say
little about a law.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from nodewise.predict.fit import Fit, Priors, fit, interval_of
from nodewise.predict.fit_curves import ABOUT, CurveGroup
from nodewise.predict.law import LAWS
from nodewise.predict.parts_law import baselines
from nodewise.predict.points import Floats, Points
from nodewise.results.columns import OVERHEAD
from nodewise.results.table_files import typed

LARGEST = "largest node count left out"
EACH = "each node count left out in turn"
OWN = "the strategy's own formula"

_LEAST_NODE_COUNTS = 3  # two to fit, and one to hold out
_LINE = ["curve", "batch_per_worker"]


def relative_error(fitted_s: ArrayLike, observed_s: ArrayLike) -> Floats:
    """Return |fitted/observed − 1|; NaN where either is NaN."""
    errors: Floats = np.abs(np.asarray(fitted_s) / np.asarray(observed_s) - 1)
    return errors


def try_held_out(group: CurveGroup, priors: Priors, draws: int) -> list[pd.DataFrame]:
    """Return rows of `trials`: held-out predictions of the group's law and of the baselines.

    Lines (one batch of one curve) with three or more node counts take part. The group's law is
    fitted to all remaining points of the group together, baselines to the whole steps of one line
    each.

    Args:
        group: the curves.
        priors: what is known of coefficients.
        draws: number of equally likely coefficients, from which intervals come.
    """
    group = group.fitted
    tables = []
    for scenario, left_out in _left_out(group.rows):
        rest, asked = group.where(~left_out), group.where(left_out)
        fitted = fit(rest.law, rest.points(), priors=priors, draws=draws)
        tables.append(_trials(fitted, rest, asked, scenario, own=True))
        lines = dict(iter(rest.rows.groupby(_LINE)))
        for line, held in asked.rows.groupby(_LINE):
            alone = replace(rest, rows=lines[line]).points(parts=False)
            for name in baselines():
                fitted = fit(LAWS[name](), alone, draws=0)
                tables.append(_trials(fitted, rest, replace(asked, rows=held), scenario, own=False))
    return tables


def judge(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the table `judgement`: errors by source, scenario and law.

    `curves` counts lines, which are one batch of one curve. `covered` is the share of points within
    their 90 % intervals.
    """
    inside = trials["observed_s"].between(trials["low_s"], trials["high_s"])
    known = trials["low_s"].notna()
    rows = trials.assign(
        line=trials["curve"] + "|" + trials["batch_per_worker"].astype(str),
        covered=inside.astype(float).where(known),
        law=trials["law"].where(~trials["own"], OWN),
    )
    groups = rows.groupby(["source", "scenario", "trained", "law", "own"], sort=False)
    summary = groups.agg(
        curves=("line", "nunique"),
        points=("error", "size"),
        median_error=("error", "median"),
        mean_error=("error", "mean"),
        worst_error=("error", "max"),
        covered=("covered", "mean"),
    )
    return typed(summary.reset_index(), OVERHEAD["judgement"])


def _left_out(rows: pd.DataFrame) -> Iterator[tuple[str, "pd.Series[bool]"]]:
    """Yield each scenario with a mask of the rows that it holds out."""
    counts = rows.groupby(_LINE)["nodes"]
    enough = counts.transform("nunique") >= _LEAST_NODE_COUNTS
    largest = enough & (rows["nodes"] == counts.transform("max"))
    if largest.any():
        yield LARGEST, largest
    for n in sorted(rows.loc[enough, "nodes"].unique()):
        yield EACH, enough & (rows["nodes"] == n)


def _trials(
    fitted: Fit, rest: CurveGroup, asked: CurveGroup, scenario: str, *, own: bool
) -> pd.DataFrame:
    points = asked.points(parts=False)
    predicted = fitted.evaluate(points)
    low, high = interval_of(fitted.add_noise(fitted.draw(points)))
    return asked.rows[[*ABOUT, "batch_per_worker", "nodes"]].assign(
        source=asked.rows["kind"],
        observed_s=asked.rows["step_time_s"],
        predicted_s=predicted,
        error=relative_error(predicted, asked.rows["step_time_s"]),
        scenario=scenario,
        trained=_trained(rest.points(), points) if scenario != EACH else "",
        law=fitted.law.name,
        own=own,
        low_s=low,
        high_s=high,
    )


def _trained(fitted: Points, asked: Points) -> list[str]:
    """Return for each point the node counts its line was fitted to, and its own: "1, 2, 3 → 4"."""
    told = []
    for model, batch, nodes in zip(asked.model, asked.batch, asked.nodes, strict=True):
        counts = np.unique(fitted.nodes[(fitted.model == model) & (fitted.batch == batch)])
        told.append(f"{', '.join(f'{n:g}' for n in counts)} → {nodes:g}")
    return told

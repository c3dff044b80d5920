"""Measure the errors of laws on held-out node counts.

Points are held out by node count, never by repeat: further repeats of a fitted point would say
little about a law.
"""

from dataclasses import replace

import numpy as np
import pandas as pd

from nodewise.predict.fit import Fit, fit, interval_of
from nodewise.predict.fit_curves import CURVE, LINE, CurveGroup
from nodewise.predict.law import LAWS

LARGEST = "largest node count left out"
EACH = "each node count left out in turn"
OWN = "the strategy's own formula"
_LEAST_NODE_COUNTS = 3  # two to fit, and one to hold out


def try_held_out(group: CurveGroup, draws: int) -> list[pd.DataFrame]:
    """Return rows of `trials`: held-out predictions of the group's law and of the baselines.

    Lines (one batch of one curve) with three or more node counts take part. The group's law is
    fitted to all remaining points of the group together, baselines to the whole steps of one line
    each.

    Args:
        group: the curves.
        draws: number of equally likely coefficients, from which intervals come.
    """
    group = group.fitted
    nodes, counts = group.rows["nodes"], group.rows.groupby(LINE)["nodes"]
    enough = counts.transform("nunique") >= _LEAST_NODE_COUNTS
    left_out = [(EACH, enough & (nodes == n)) for n in sorted(nodes[enough].unique())]
    if left_out:
        left_out.insert(0, (LARGEST, enough & (nodes == counts.transform("max"))))
    tables = []
    for scenario, mask in left_out:
        rest, asked = group.where(~mask), group.where(mask)
        lines = dict(iter(rest.rows.groupby(LINE)))
        trials = [_trials(rest.fit(draws), asked).assign(own=True)]
        for line, held in asked.rows.groupby(LINE):
            alone = replace(rest, rows=lines[line]).points(parts=False)
            for name in LAWS.baselines():
                fitted = fit(LAWS[name](), alone, draws=0)
                trials.append(_trials(fitted, replace(asked, rows=held)).assign(own=False))
        table = pd.concat(trials).assign(scenario=scenario, trained="")
        if scenario == LARGEST:
            known = {line: ", ".join(map(str, sorted(of["nodes"]))) for line, of in lines.items()}
            at = table[[*LINE, "nodes"]].to_numpy()
            table["trained"] = [f"{known[curve, batch]} → {n}" for curve, batch, n in at]
        tables.append(table)
    return tables


def _trials(fitted: Fit, asked: CurveGroup) -> pd.DataFrame:
    """Return what a fit predicts for points, with the intervals of another measurement."""
    points = asked.points(parts=False)
    predicted = fitted.evaluate(points)
    low, high = interval_of(fitted.add_noise(fitted.draw(points)))
    return asked.rows[[*CURVE, "batch_per_worker", "nodes"]].assign(
        observed_s=points.step_s,
        predicted_s=predicted,
        error=np.abs(predicted / points.step_s - 1),
        law=fitted.law.name,
        low_s=low,
        high_s=high,
    )


def judge(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the errors by source, scenario and law.

    `curves` counts lines, which are one batch of one curve. `covered` is the share of points within
    their 90 % intervals.
    """
    inside = trials["observed_s"].between(trials["low_s"], trials["high_s"])
    rows = trials.assign(
        line=trials["curve"] + "|" + trials["batch_per_worker"].astype(str),
        covered=inside.astype(float).where(trials["low_s"].notna()),
        law=trials["law"].where(~trials["own"], OWN),
    )
    groups = rows.groupby(["source", "scenario", "trained", "law", "own"], sort=False)
    return groups.agg(
        curves=("line", "nunique"),
        points=("error", "size"),
        median_error=("error", "median"),
        mean_error=("error", "mean"),
        worst_error=("error", "max"),
        covered=("covered", "mean"),
    ).reset_index()

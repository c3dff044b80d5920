"""Measure the errors of fits on held-out node counts.

Points are held out by node count, never by repeat: further repeats of a fitted point would say
little about a law.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from nodewise.predict.fit import interval_of
from nodewise.predict.fit_curves import CURVE, LINE, CurveGroup

LARGEST = "largest node count left out"
EACH = "each node count left out in turn"
_LEAST_NODE_COUNTS = 3  # two to fit, and one to hold out


def try_held_out(group: CurveGroup, draws: int) -> Iterator[dict[Any, Any]]:
    """Yield predictions of held-out points, with the intervals of another measurement.

    Lines (one batch of one curve) with three or more node counts take part. The law is fitted to
    all remaining points of the group together.
    """
    group = group.fitted
    nodes, counts = group.rows["nodes"], group.rows.groupby(LINE)["nodes"]
    enough = counts.transform("nunique") >= _LEAST_NODE_COUNTS
    left_out = [(EACH, enough & (nodes == n)) for n in sorted(nodes[enough].unique())]
    if left_out:
        left_out.insert(0, (LARGEST, enough & (nodes == counts.transform("max"))))
    for scenario, mask in left_out:
        rest, asked = group.where(~mask), group.where(mask)
        fitted, points = rest.fit(draws), asked.points()
        predicted = fitted.evaluate(points)
        low, high = interval_of(fitted.add_noise(fitted.draw(points)))
        rows = asked.rows[[*CURVE, "batch_per_worker", "nodes"]]
        trained: pd.Series[str] | str = ""
        if scenario == LARGEST:
            known = rest.rows.groupby(LINE)["nodes"].agg(lambda n: ", ".join(map(str, sorted(n))))
            trained = rows[LINE].join(known, on=LINE)["nodes"] + " → " + rows["nodes"].astype(str)
        rows = rows.assign(
            scenario=scenario,
            trained=trained,
            observed_s=points.step_s,
            predicted_s=predicted,
            error=np.abs(predicted / points.step_s - 1),
            law=fitted.law.name,
            low_s=low,
            high_s=high,
        )
        yield from rows.to_dict("records")


def judge(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the errors by source and scenario.

    `curves` counts lines, which are one batch of one curve. `covered` is the share of points within
    their 90 % intervals.
    """
    rows = trials.assign(
        line=trials["curve"] + "|" + trials["batch_per_worker"].astype(str),
        covered=trials["observed_s"].between(trials["low_s"], trials["high_s"]),
    )
    return (
        rows.groupby(["source", "scenario", "trained"], sort=False)
        .agg(
            curves=("line", "nunique"),
            points=("error", "size"),
            median_error=("error", "median"),
            mean_error=("error", "mean"),
            worst_error=("error", "max"),
            covered=("covered", "mean"),
        )
        .reset_index()
    )

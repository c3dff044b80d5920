"""Write the sentences that state what a fitted formula says and become titles of charts."""

import pandas as pd

from nodewise.predict.study import ALL_POINTS
from nodewise.report.figures._words import percent, times

_LEAST = 0.01  # smallest error that is stated as a number


def describe_fit(rows: pd.DataFrame) -> str:
    """State the largest error of the formula.

    It is the error at points that were held out of the fit, or at the points of the fit if none
    were held out. A single point is too little to judge a formula, and the sentence says so.
    """
    seen = rows[(rows["role"] == "observed") & (rows["scenario"] == ALL_POINTS)]
    held = rows[rows["role"] == "held out"]
    points = (held if len(held) else seen).dropna(subset=["fitted_s", "observed_s"])
    if points.empty:
        return ""
    which = "left out of its fit" if len(held) else "it was fitted to"
    if len(points) == 1:
        return f"Too little to judge the formula: one point {which}"
    worst = (points["fitted_s"] / points["observed_s"] - 1).abs().max()
    off = f"at most {percent(worst)}" if worst >= _LEAST else f"less than {percent(_LEAST)}"
    return f"The formula is off by {off} at {len(points)} points {which}"


def describe_reach(rows: pd.DataFrame) -> str:
    """State the speed-up on the most nodes by the formula, at the largest batch."""
    rows = rows[rows["role"] != "observed"].dropna(subset=["low", "high"])
    if rows.empty:
        return ""
    last = rows.sort_values(["nodes", "batch_per_worker"]).iloc[-1]
    low, high = (times(last[end]).removesuffix(" times") for end in ("low", "high"))
    return (
        f"By the formula, {last['nodes']} nodes are {times(last['speedup'])} as fast as one at "
        f"batch {last['batch_per_worker']} (90\u00a0% interval: {low} to {high})"
    )


def describe_savings(rows: pd.DataFrame, foreseen: str) -> str:
    """State the share of time saved by the formulas, and the share that the study foresaw.

    Both are for the most nodes for which the study foresaw a share.

    Args:
        rows: the shares, with `role`, `nodes`, `saved`, `low` and `high`.
        foreseen: the role of the shares that the study foresaw.
    """
    law = rows[rows["role"].isin(["fitted", "predicted"])]
    both = law.merge(rows[rows["role"] == foreseen], "inner", "nodes", suffixes=("", "_theirs"))
    if both.empty:
        return ""
    last = both.sort_values("nodes").iloc[-1]
    interval = percent(last["low"], last["high"])
    return (
        f"By the formulas, {last['nodes']} nodes save {percent(last['saved'])} of the time "
        f"({interval}); the study foresaw {percent(last['saved_theirs'])}"
    )

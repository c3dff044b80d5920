"""Find the bottleneck of a step: its largest part."""

import pandas as pd

from nodewise.predict.fit import Fit
from nodewise.predict.law import PartsLaw
from nodewise.predict.points import Points
from nodewise.results.columns import OVERHEAD

PARTS = ("compute", "wait", "input", "latency", "bandwidth")
"""The parts of a step. Communication is split into latency and bandwidth."""
_OF_BYTES = ("seconds_per_byte", "inside_seconds_per_byte")
_OF_MESSAGES = ("latency_s", "inside_latency_s", "service_s")
_NOTHING = 0.005  # an overhead up to this share of the step is none


def diagnose(rows: pd.DataFrame, fitted: Fit, points: Points) -> pd.DataFrame:
    """Return rows of `diagnosis`; none if the law has no parts.

    Communication time is split: `bandwidth` is the time due to bytes, `latency` the time due to
    messages and to serving them. The rest, encoding and decoding, counts as `compute`. Waiting for
    its own examples, as measured, is a part of computing in the law and counts as `input` here.

    Args:
        rows: the points, with the columns of a group.
        fitted: the fit of their law.
        points: the same points.
    """
    if not isinstance(fitted.law, PartsLaw):
        return rows.iloc[:0].reindex(columns=[*OVERHEAD["diagnosis"]])
    values = fitted.values_at(fitted.values, points)
    no_bytes = values | {name: 0 * values[name] for name in _OF_BYTES if name in values}
    only_coding = no_bytes | {name: 0 * values[name] for name in _OF_MESSAGES if name in values}
    whole = fitted.law.seconds(values, points)
    without_bytes, coding = (
        fitted.law.seconds(some, points)["communicate"] for some in (no_bytes, only_coding)
    )
    seconds = {
        "compute": whole["compute"] + coding,
        "wait": whole["wait"],
        "input": whole["input"],
        "latency": without_bytes - coding,
        "bandwidth": whole["communicate"] - without_bytes,
    }
    shares = pd.DataFrame(seconds, index=rows.index)
    shares = shares.div(shares.sum(axis=1), axis=0)
    waited = (rows["input_s"] / rows["step_time_s"]).astype(float).fillna(0.0)
    waited = waited.clip(0.0, shares["compute"])
    shares = shares.assign(compute=shares["compute"] - waited, input=shares["input"] + waited)
    bound = {part: f"{part}-bound" for part in PARTS} | {"wait": fitted.law.wait_bound}
    overheads = shares.drop(columns="compute")
    return rows[[name for name in OVERHEAD["diagnosis"] if name in rows]].assign(
        bound=shares.idxmax(axis=1).map(bound),
        overhead=overheads.idxmax(axis=1).map(bound).where(overheads.max(axis=1) > _NOTHING, ""),
        **{f"{part}_share": shares[part] for part in PARTS},
    )

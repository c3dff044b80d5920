"""Find the bottleneck of a step: its largest part."""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from nodewise.predict.fit import Fit
from nodewise.predict.law import At, Floats
from nodewise.predict.parts_law import PartsLaw
from nodewise.results.columns import OVERHEAD

PARTS = ("compute", "wait", "input", "latency", "bandwidth")
"""The parts of a step. Communication is split into latency and bandwidth."""
_OF_BYTES = ("seconds_per_byte", "inside_seconds_per_byte")
_OF_MESSAGES = ("latency_s", "inside_latency_s", "service_s")
_NOTHING = 0.005  # an overhead up to this share of the step is none


def law_parts(fitted: Fit, at: At, model: ArrayLike, link: ArrayLike) -> dict[str, Floats]:
    """Return the seconds of each of `PARTS` at points, (points,) each, by the law of a fit.

    Communication time is split: `bandwidth` is the time due to bytes, `latency` the time due to
    messages and to serving them. The rest, encoding and decoding, counts as `compute`. All are NaN
    if the law has no parts.
    """
    law = fitted.law
    if not isinstance(law, PartsLaw):
        return {name: np.full(at.nodes.shape, np.nan) for name in PARTS}
    values = fitted.values_at(fitted.values, at, model, link)
    nothing = np.zeros(at.nodes.shape)
    no_bytes = values | {name: nothing for name in _OF_BYTES if name in values}
    of_messages = {name: nothing for name in _OF_MESSAGES if name in values}
    without_bytes = law.communicate_s(no_bytes, at)
    coding = law.communicate_s(no_bytes | of_messages, at)
    parts = {
        "compute": law.compute_s(values, at) + coding,
        "wait": law.wait_s(values, at),
        "input": law.input_s(values, at),
        "latency": without_bytes - coding,
        "bandwidth": law.communicate_s(values, at) - without_bytes,
    }
    return {
        name: np.broadcast_to(part, at.nodes.shape).astype(float) for name, part in parts.items()
    }


def diagnose(rows: pd.DataFrame, parts: dict[str, Floats], law: PartsLaw) -> pd.DataFrame:
    """Return rows of `diagnosis`.

    Waiting for its own examples, as measured, is a part of computing in the law and counts as
    `input` here.

    Args:
        rows: the points, with the columns of a group.
        parts: the parts of their steps, as from `law_parts`, (points,) each.
        law: the law of the points.
    """
    shares = pd.DataFrame(parts, index=rows.index)
    shares = shares.div(shares.sum(axis=1), axis=0)
    waited = (rows["input_s"] / rows["step_time_s"]).astype(float).fillna(0.0)
    waited = waited.clip(0.0, shares["compute"])
    shares = shares.assign(compute=shares["compute"] - waited, input=shares["input"] + waited)
    bound = {part: f"{part}-bound" for part in PARTS} | {"wait": law.wait_bound}
    overheads = shares.drop(columns="compute")
    return rows[[name for name in OVERHEAD["diagnosis"] if name in rows]].assign(
        source=rows["kind"],
        bound=shares.idxmax(axis=1).map(bound),
        overhead=overheads.idxmax(axis=1).map(bound).where(overheads.max(axis=1) > _NOTHING, ""),
        **{f"{part}_share": shares[part] for part in PARTS},
    )

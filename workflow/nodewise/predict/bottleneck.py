"""What bounds a step: the largest of its parts, with the evidence."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from nodewise.core.units import write_number
from nodewise.predict.curve_groups import ABOUT
from nodewise.predict.fit import Fit
from nodewise.predict.law import At, Floats, Law
from nodewise.predict.laws.pipeline import GPipe
from nodewise.predict.parts_law import PartsLaw

BOUND = {
    "compute": "compute-bound",
    "wait": "straggler-bound",
    "input": "input-bound",
    "latency": "latency-bound",
    "bandwidth": "bandwidth-bound",
}
DIAGNOSIS = {
    "source": "str",
    **dict.fromkeys(ABOUT, "str"),
    "batch_per_worker": "int64",
    "nodes": "int64",
    "bound": "str",
    "overhead": "str",
    **{f"{part}_share": "float64" for part in BOUND},
    "evidence": "str",
}
_OF_BYTES = ("seconds_per_byte", "inside_seconds_per_byte")
_OF_MESSAGES = ("latency_s", "inside_latency_s", "service_s")
_NOTHING = 0.005  # of the step
_WORDS = {
    "compute": "computing",
    "wait": "waiting for the slowest node",
    "input": "examples of other nodes",
    "latency": "messages",
    "bandwidth": "bytes on the link",
}
_OWN_INPUT = {"input": "waiting for its own examples"}
# What stages of a pipeline wait for is no slow node: the law has equal ones.
_PIPELINE_BOUND, _PIPELINE_WORDS = {"wait": "bubble-bound"}, {"wait": "idle in the pipeline"}


def law_parts(fitted: Fit, at: At, model: ArrayLike, link: ArrayLike) -> dict[str, Floats]:
    """Return the seconds of each part of `BOUND` at points, by a law of parts.

    Bandwidth is what communication takes because of its bytes, latency because of its messages
    (and of serving them); the rest of it, coding and decoding, is computing.

    Raises:
        TypeError: the law does not tell parts.
    """
    law = fitted.law
    if not isinstance(law, PartsLaw):
        raise TypeError(f"{law.name}: tells no parts")
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


def diagnose(rows: pd.DataFrame, parts: dict[str, Floats], law: Law) -> list[dict[str, Any]]:
    """Return rows of `DIAGNOSIS`.

    A law has a worker's own examples among its computing: what it was seen to wait for them is
    taken from there.

    Args:
        rows: points with the columns of a group.
        parts: what `law_parts` gave for them, shape (points,).
        law: their law.
    """
    table = pd.DataFrame(parts, index=rows.index)
    whole_s = table.sum(axis=1)
    shares = table.div(whole_s, axis=0)
    waited = (rows["input_s"] / rows["step_time_s"]).astype(float).fillna(0.0)
    waited = waited.clip(0.0, shares["compute"])
    own = waited > shares["input"]
    shares["compute"] -= waited
    shares["input"] += waited
    bubble = isinstance(law, GPipe)
    bound = BOUND | (_PIPELINE_BOUND if bubble else {})
    words = _WORDS | (_PIPELINE_WORDS if bubble else {})
    overhead = shares.drop(columns="compute")
    diagnosed = []
    for (_, row), (_, share), (_, extra), waits, step_s in zip(
        rows.iterrows(), shares.iterrows(), overhead.iterrows(), own, whole_s, strict=True
    ):
        of_input = _OWN_INPUT if waits else {}
        largest, first = str(share.idxmax()), str(extra.idxmax())
        diagnosed.append(
            {
                **{name: row[name] for name in DIAGNOSIS if name in row},
                "source": row["kind"],
                "bound": bound[largest],
                "overhead": bound[first] if extra[first] > _NOTHING else "",
                **{f"{name}_share": value for name, value in share.items()},
                "evidence": _evidence(share, step_s, words | of_input),
            }
        )
    return diagnosed


def _evidence(shares: "pd.Series[float]", step_s: float, words: Mapping[str, str]) -> str:
    """Return in words what the formula's time of a step goes into, the largest parts first."""
    parts = shares[shares > _NOTHING].sort_values(ascending=False)
    phrases = [f"{100 * share:.0f} % {words[str(name)]}" for name, share in parts.items()]
    return f"{write_number(step_s, 's')} by the formula: {', '.join(phrases)}"

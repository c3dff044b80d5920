"""What bounds a step: the largest of its parts, with the evidence."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from nodewise.overhead.fit import Fit
from nodewise.overhead.formulas import At, Floats, PartsLaw
from nodewise.overhead.pools import ABOUT

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
_NOTHING = 0.005  # of the step
_WORDS = {
    "compute": "computing",
    "wait": "waiting for the slowest node",
    "input": "examples of other nodes",
    "latency": "messages",
    "bandwidth": "bytes on the link",
}


def law_parts(fitted: Fit, at: At, model: ArrayLike, link: ArrayLike) -> dict[str, Floats]:
    """Return the seconds of each part of `BOUND` at points, by a law of parts.

    Latency is what a law says of a gradient without bytes, bandwidth is the rest of communication.

    Raises:
        TypeError: the law does not tell parts.
    """
    law = fitted.law
    if not isinstance(law, PartsLaw):
        raise TypeError(f"{law.name}: tells no parts")
    values = fitted.values_at(fitted.values, at, model, link)
    no_bytes = values | {"seconds_per_byte": np.zeros(at.nodes.shape)}
    latency = law.communicate_s(no_bytes, at)
    parts = {
        "compute": law.compute_s(values, at),
        "wait": law.wait_s(values, at),
        "input": law.input_s(values, at),
        "latency": latency,
        "bandwidth": law.communicate_s(values, at) - latency,
    }
    return {
        name: np.broadcast_to(part, at.nodes.shape).astype(float) for name, part in parts.items()
    }


def diagnose(rows: pd.DataFrame, parts: dict[str, Floats]) -> list[dict[str, Any]]:
    """Return rows of `DIAGNOSIS`.

    Args:
        rows: points with the columns of a pool.
        parts: what `law_parts` gave for them, shape (points,).
    """
    table = pd.DataFrame(parts, index=rows.index)
    shares = table.div(table.sum(axis=1), axis=0)
    overhead = shares.drop(columns="compute")
    told = []
    for (_, row), (_, share), (_, extra) in zip(
        rows.iterrows(), shares.iterrows(), overhead.iterrows(), strict=True
    ):
        largest, first = str(share.idxmax()), str(extra.idxmax())
        told.append(
            {
                **{name: row[name] for name in DIAGNOSIS if name in row},
                "source": row["kind"],
                "bound": BOUND[largest],
                "overhead": BOUND[first] if extra[first] > _NOTHING else "",
                **{f"{name}_share": value for name, value in share.items()},
                "evidence": _evidence(share, row["step_time_s"]),
            }
        )
    return told


def _evidence(shares: "pd.Series[float]", step_s: float) -> str:
    """Return in words what a step's time goes into, the largest parts first."""
    parts = shares[shares > _NOTHING].sort_values(ascending=False)
    words = [f"{share:.0%} {_WORDS[str(name)]}" for name, share in parts.items()]
    return f"of {step_s:.3g} s: {', '.join(words)}"

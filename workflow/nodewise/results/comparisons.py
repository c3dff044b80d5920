"""Compare points of the tables: which point is compared with which. Data frames in and out.

Ratios are relative to one node with the same batch per worker. Points with a caution (`flags`) stay
in the frames; findings select the points that count as evidence.
"""

import pandas as pd

from nodewise.core.exchanges import exchanges_where
from nodewise.results.columns import SINGLE, SPLIT
from nodewise.results.queries import GROUP, POINT, with_labels
from nodewise.results.tables import join_cautions

ALIKE = [*GROUP, "cluster", "machine", "label", "whole_epochs", "batch_per_worker"]
"""The columns in which two points must agree to be compared."""
SPLIT_LONGER = 0.25
SHORT_S = 0.01
_SECONDS = [SPLIT[0], "input_s", *SPLIT[1:]]


def on_devices(points: pd.DataFrame) -> "pd.Series[bool]":
    """Return which points train on devices of one machine, which do not count as several nodes."""
    return points["exchange"].isin(exchanges_where(lambda exchange: exchange.in_process))


def sum_gradients(points: pd.DataFrame) -> "pd.Series[bool]":
    """Return which points sum the whole gradients of all nodes in every step."""
    return points["exchange"].isin(exchanges_where(lambda exchange: exchange.sums_gradients))


def with_rate_intervals(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the interval of their throughput, computed from that of step times."""
    times = rows["step_time_s"] * rows["examples_per_s"]
    return rows.assign(
        examples_per_s_low=times / rows["step_time_high_s"],
        examples_per_s_high=times / rows["step_time_low_s"],
    )


def not_slower(group: pd.DataFrame) -> list[str]:
    """Return the strategies whose interval overlaps with that of the fastest of the group."""
    rows = with_rate_intervals(group)
    ranked = rows.sort_values("examples_per_s", ascending=False, kind="stable")
    best, others = ranked.iloc[0], ranked.iloc[1:]
    overlap = others["examples_per_s_high"] >= best["examples_per_s_low"]
    return [*others.loc[overlap, "strategy"]]


def on_several_nodes(curves: pd.DataFrame) -> pd.DataFrame:
    """Return the points on several nodes that have a speed-up, with their one-node references.

    Columns of the reference end in `_one`. `line` is the strategy. `speedup_low` and `speedup_high`
    are the range that follows from the intervals of both step times; NaN if one of them had a
    single launch. Cautions about the reference also apply to the point.
    """
    several = (curves["nodes"] > 1) & ~on_devices(curves) & (curves["strategy"] != SINGLE)
    times = [f"step_time_{end}s" for end in ("", "low_", "high_")]
    one = curves[["cell_id", "strategy", "examples_per_s", "flags", "repeats", *times]]
    rows = with_labels(curves[several]).merge(one.add_suffix("_one"), "left", "cell_id_one")
    rows = rows.dropna(subset="speedup")
    both = zip(rows["flags"], rows["flags_one"].fillna(""), strict=True)
    cautions = [join_cautions(own, one and f"on one node: {one}") for own, one in both]
    rows = rows.assign(line=rows["strategy"], flags=cautions)
    ends = {
        f"speedup_{end}": rows["speedup"]
        * (rows[f"step_time_{end}_s_one"] / rows["step_time_s_one"])
        * (rows["step_time_s"] / rows[f"step_time_{other}_s"])
        for end, other in (("low", "high"), ("high", "low"))
    }
    return rows.assign(**ends).sort_values([*GROUP, "line", *POINT], ignore_index=True)


def parts(curves: pd.DataFrame) -> pd.DataFrame:
    """Return the points on several nodes that have split steps.

    `largest` is the largest overhead (any part except computing), and `largest_share` its share of
    the step. `ratio` is communication time over computing time. Cautions are those of `split`.
    """
    rows = split(on_several_nodes(curves)).reset_index(drop=True)
    shares = rows[_SECONDS].div(rows[_SECONDS].sum(axis=1), axis=0)
    overheads = shares.drop(columns="compute_s")
    return rows.assign(
        largest=overheads.idxmax(axis=1).astype("str").str.removesuffix("_s") if len(rows) else "",
        largest_share=overheads.max(axis=1),
        ratio=rows["communicate_s"] / rows["compute_s"],
    )


def split(points: pd.DataFrame) -> pd.DataFrame:
    """Return the points that have split steps, with cautions where the parts say little.

    There are two cautions: the sum of the parts exceeds the step by more than `SPLIT_LONGER`, or
    emulated steps are shorter than `SHORT_S`. In such short steps, whether a part falls into a
    node's time slice on the core, or between two slices, is random. Communication time is unknown
    (NaN) if a strategy sends bytes but does not time communication separately.
    """
    rows = points.dropna(subset="compute_s")
    not_timed = (rows["communicate_s"] == 0) & (rows["bytes_sent_per_step"] > 0)
    rows = rows.assign(communicate_s=rows["communicate_s"].mask(not_timed))
    longer = rows[_SECONDS].sum(axis=1) / rows["step_time_s"] > 1 + SPLIT_LONGER
    short = (rows["kind"] != "measured") & (rows["step_time_s"] < SHORT_S)
    cautions = (
        rows["flags"],
        longer.map({True: "its parts take far longer than the step", False: ""}),
        short.map({True: "its steps are too short for parts of them", False: ""}),
    )
    return rows.assign(flags=[*map(join_cautions, *cautions)])

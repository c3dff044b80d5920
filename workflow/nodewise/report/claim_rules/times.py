"""Rules about step times and throughput."""

from collections.abc import Sequence
from itertools import pairwise

import pandas as pd

from nodewise.report import evidence
from nodewise.report.claim_rules import beside, claim_rule
from nodewise.results import comparisons
from nodewise.results.queries import GROUP, Tables, scaling_lines, with_labels

_NEAR_SHARE = 0.05  # of the time; a saved share this close to the claimed one counts as equal


@claim_rule("batch_decides")
def batch_decides(tables: Tables, _: Tables, *, study: str, models: Sequence[str]) -> pd.DataFrame:
    """Check that the speed-up is above one at a line's largest batch, below one at its smallest.

    Only batches that count as evidence are considered, if there are two or more of them.
    """
    rows = comparisons.on_several_nodes(tables["curves"])
    rows = rows[(rows["study"] == study) & rows["model"].isin(models)]
    rows = evidence.check_times(rows, tables, other="_one").assign(
        known=lambda of: of["lacks"] == ""
    )
    line = [*GROUP, "cluster", "machine", "line", "label", "nodes"]
    batches = rows[rows["known"]].groupby(line)["batch_per_worker"].nunique().rename("batches")
    rows = rows.merge(batches.reset_index(), "left", line)
    rows = rows[rows["known"] | ~(rows["batches"] > 1)].sort_values(
        "batch_per_worker", kind="stable"
    )
    rows = rows[rows.groupby(line)["batch_per_worker"].transform("nunique") > 1]
    small = rows.drop_duplicates(line).assign(most=1.0, at="at the smallest batch")
    large = rows.drop_duplicates(line, keep="last").assign(least=1.0, at="at the largest batch")
    rows = pd.concat([small, large]).fillna({"least": -float("inf"), "most": float("inf")})
    return rows.assign(value=rows["speedup"], low=rows["speedup_low"], high=rows["speedup_high"])


@claim_rule("more_nodes")
def more_nodes(
    tables: Tables,
    _: Tables,
    *,
    study: str,
    counts: Sequence[int] = (),
    line: str | None = None,
    less_than_linear: bool = False,
) -> pd.DataFrame:
    """Check that more nodes have a higher throughput.

    Args:
        tables: the tables of results.
        study: the study that is judged.
        counts: numbers of nodes, each compared with the one before it; without any, all numbers are
            compared with one node.
        line: the strategy; all if it is left out.
        less_than_linear: whether the ratio must also be below that of the numbers of nodes.
    """
    rows = _without_emulated_devices(with_labels(scaling_lines(tables["curves"])))
    rows = rows[(rows["study"] == study) & ((line is None) | (rows["line"] == line))]
    pair = rows.merge(rows, "inner", [*comparisons.ALIKE, "line"], suffixes=("", "_other"))
    known = [*pairwise(counts)] or [(1, nodes) for nodes in {*pair["nodes"]} - {1}]
    steps = pd.DataFrame(known, columns=["nodes_other", "nodes"])
    pair = _throughputs(pair.merge(steps), tables)
    return pair.assign(most=pair["nodes"] / pair["nodes_other"]) if less_than_linear else pair


@claim_rule("saves")
def saves(_: Tables, overhead: Tables, *, study: str, nodes: int, share: float) -> pd.DataFrame:
    """Check that the formula fitted to the study's own table saves the claimed share of the time.

    The share on `nodes` nodes is the mean over the study's models, each at the batch that saves
    most there, and must be within `_NEAR_SHARE` of `share`. Its interval counts the errors of all
    models as one.
    """
    rows = overhead["optima"]
    rows = rows[(rows["study"] == study) & (rows["source"] == "published")]
    rows = rows[rows["nodes"] == nodes].sort_values("speedup")
    best = rows.drop_duplicates("model", keep="last")[["speedup", "speedup_low", "speedup_high"]]
    value, low, high = 1 - (1 / best).mean()
    comparison = {"value": value, "low": low, "high": high, "label": "predicted", "own": True}
    limits = {"least": share - _NEAR_SHARE, "most": share + _NEAR_SHARE}
    return pd.DataFrame([comparison | limits] if len(best) else [])


@claim_rule("faster")
def faster(
    tables: Tables,
    _: Tables,
    *,
    way: str,
    than: str,
    study: str | None = None,
    by: str = "strategy",
) -> pd.DataFrame:
    """Check that a strategy has a higher throughput than another on the same nodes and batch.

    `by` is the column of the table `curves` that has the names `way` and `than`.
    """
    rows = _without_emulated_devices(with_labels(tables["curves"]))
    rows = rows[(rows["nodes"] > 1) & (study is None or rows["study"] == study)]
    return _throughputs(beside(rows, way, than, by), tables)


def _without_emulated_devices(rows: pd.DataFrame) -> pd.DataFrame:
    """Leave out emulated devices of one process.

    They need no link, unlike emulated nodes, and the process can use their CPU quotas as it likes.
    """
    return rows[(rows["kind"] == "measured") | ~comparisons.on_devices(rows)]


def _throughputs(pair: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """Return the ratios of the throughputs of pairs of points, which must exceed one.

    The interval of a ratio contains all values that the intervals of both step times allow.
    """
    ratio = pair["examples_per_s"] / pair["examples_per_s_other"]
    times, others = pair["step_time_s"], pair["step_time_s_other"]
    rows = pair.assign(
        value=ratio,
        low=ratio * (times / pair["step_time_high_s"]) * (pair["step_time_low_s_other"] / others),
        high=ratio * (times / pair["step_time_low_s"]) * (pair["step_time_high_s_other"] / others),
        least=1.0,
    )
    return evidence.check_times(rows, tables, other="_other")

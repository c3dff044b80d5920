"""Rules about step times and throughput."""

from collections.abc import Sequence
from itertools import pairwise

import pandas as pd

from nodewise.report import evidence
from nodewise.report.claim_rules import beside, claim_rule, join
from nodewise.results import comparisons
from nodewise.results.queries import GROUP, Tables, plain_training, scaling_lines, with_labels

_NEAR_SHARE = 0.05  # of the time; a saved share this close to the claimed one counts as equal


@claim_rule("batch_decides")
def batch_decides(tables: Tables, _: Tables, *, study: str, models: Sequence[str]) -> pd.DataFrame:
    """Check that the speed-up is above one at a line's largest batch, below one at its smallest.

    Only batches that count as evidence are considered, if there are two or more of them.
    """
    rows = comparisons.on_several_nodes(tables["curves"])
    rows = rows[(rows["study"] == study) & rows["model"].isin(models)]
    rows = evidence.check_times(rows, tables, other="_one")
    found = []
    for _key, line in rows.groupby([*GROUP, "cluster", "machine", "line", "label", "nodes"]):
        known = line[line["lacks"] == ""]
        points = known if known["batch_per_worker"].nunique() > 1 else line
        if points["batch_per_worker"].nunique() > 1:
            small, large = (points.sort_values("batch_per_worker").iloc[[end]] for end in (0, -1))
            found.append(_speedups(small).assign(most=1.0, at="at the smallest batch"))
            found.append(_speedups(large).assign(least=1.0, at="at the largest batch"))
    return join(found)


@claim_rule("more_nodes")
def more_nodes(tables: Tables, _: Tables, *, study: str, counts: Sequence[int]) -> pd.DataFrame:
    """Check that the throughput on each of `counts` nodes exceeds that on the count before it."""
    rows = with_labels(scaling_lines(tables["curves"]))
    rows = rows[rows["study"] == study]
    found = []
    for before, after in pairwise(counts):
        pair = _on_one_line(rows[rows["nodes"] == after], rows[rows["nodes"] == before])
        found.append(_throughputs(pair, tables))
    return join(found)


@claim_rule("saves")
def saves(_: Tables, overhead: Tables, *, study: str, nodes: int, share: float) -> pd.DataFrame:
    """Check that the formula fitted to the study's own table saves the claimed share of the time.

    The share on `nodes` nodes is the mean over the study's models. It must be within `_NEAR_SHARE`
    of `share`.
    """
    savings = overhead["savings"]
    mean = savings[(savings["study"] == study) & (savings["model"] == "")]
    there = mean[mean["nodes"] == nodes]
    return there.assign(
        value=there["saved"],
        least=share - _NEAR_SHARE,
        most=share + _NEAR_SHARE,
        label=there["kind"],
        cell_id="",
    )


@claim_rule("below_linear")
def below_linear(tables: Tables, _: Tables, *, study: str, strategy: str) -> pd.DataFrame:
    """Check that the speed-up is above one and below the number of devices.

    Only measured points are compared. Emulated devices have a CPU quota each, but they are in one
    process, which can use the quotas as it likes.
    """
    rows = with_labels(scaling_lines(tables["curves"]))
    rows = rows[
        (rows["kind"] == "measured") & (rows["study"] == study) & (rows["line"] == strategy)
    ]
    pair = _on_one_line(rows[rows["nodes"] > 1], rows[rows["nodes"] == 1])
    return _throughputs(pair, tables).assign(most=pair["nodes"].astype("float64"))


@claim_rule("faster")
def faster(
    tables: Tables, _: Tables, *, way: str, than: str, study: str | None = None
) -> pd.DataFrame:
    """Check that the throughput of a strategy exceeds that of another on the same nodes and batch.

    Emulated devices of one process are left out, because they need no link, unlike emulated nodes.
    """
    rows = with_labels(tables["curves"])
    rows = rows[(rows["kind"] == "measured") | ~comparisons.on_devices(rows)]
    rows = rows[(rows["nodes"] > 1) & (study is None or rows["study"] == study)]
    return _throughputs(beside(rows, way, than), tables)


@claim_rule("faster_than_one")
def faster_than_one(tables: Tables, _: Tables, *, study: str, way: str) -> pd.DataFrame:
    """Check that the throughput of a strategy on several nodes exceeds that of one process."""
    rows = with_labels(tables["curves"])
    rows = rows[rows["study"] == study]
    one = plain_training(rows)
    several = rows[(rows["strategy"] == way) & (rows["nodes"] > 1)]
    pair = several.merge(one, "inner", comparisons.ALIKE, suffixes=("", "_other"))
    return _throughputs(pair, tables)


def _on_one_line(points: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    """Join points with those of the same line on another number of nodes (suffix `_other`)."""
    return points.merge(others, "inner", [*comparisons.ALIKE, "line"], suffixes=("", "_other"))


def _speedups(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(value=rows["speedup"], low=rows["speedup_low"], high=rows["speedup_high"])


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

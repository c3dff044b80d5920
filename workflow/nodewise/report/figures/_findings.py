"""What a chart shows, in a sentence for its title: by the points that count as evidence alone.

Where none does, the sentence is empty, and the title says what is plotted.
"""

from typing import Any

import pandas as pd

from nodewise.core.units import write_percent
from nodewise.report import evidence
from nodewise.report.figures._encodings import strategy_titles
from nodewise.results import comparisons

_PARTS = {
    "input": "waiting for examples",
    "wait": "waiting for other workers",
    "communicate": "communicating",
    "apply": "updating the weights",
}
_SAME = 0.01  # of a speed-up: that of the chart, and that against one process


def with_certain(rows: pd.DataFrame, tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Return speed-ups with `certain_low` and `certain_high`, NaN where a point does not count."""
    told = comparisons.on_several_nodes(tables["curves"])
    told = evidence.select(evidence.check_times(told, tables, other="_one"))
    ends = {"speedup_low": "certain_low", "speedup_high": "certain_high", "speedup": "certain"}
    at = ["cell_id", "line"]
    rows = rows.merge(told[[*at, *ends]].rename(columns=ends), "left", at)
    same = (rows["certain"] / rows["speedup"] - 1).abs() < _SAME
    names = ["certain_low", "certain_high"]
    return rows.assign(**{name: rows[name].where(same) for name in names})


def describe_speedups(rows: pd.DataFrame) -> str:
    """Say how fast most nodes are at the largest batch and at the smallest."""
    ends = _ends(rows)
    if not ends:
        return ""
    said = [_how_fast(row) for row in ends]
    if len(said) > 1:  # the second need not repeat it all
        said[1] = said[1].replace(" as fast as one", "").replace(" than one", "")
    return f"{ends[0]['nodes']} nodes are {', '.join(said)}"


def describe_efficiencies(rows: pd.DataFrame) -> str:
    """Say which share of the ideal speed-up most nodes reach, at the ends of the batches."""
    ends = _ends(rows)
    if not ends:
        return ""
    shares = {row["batch_per_worker"]: row["efficiency"] for row in ends}
    return f"{ends[0]['nodes']} nodes reach {_listed(shares, ' of ideal scaling')}"


def describe_batches(rows: pd.DataFrame) -> str:
    """Say from which batch on most nodes are faster than one."""
    told = rows[rows["certain_low"].notna()]
    if told["batch_per_worker"].nunique() < 2:
        return ""
    line = told[told["nodes"] == told["nodes"].max()].sort_values("batch_per_worker")
    nodes, faster = line["nodes"].iloc[0], line["certain_low"] > 1
    if not faster.any():
        return f"{nodes} nodes are at no batch clearly faster than one"
    first = line.loc[faster, "batch_per_worker"].iloc[0]
    from_there_on = faster[line["batch_per_worker"] >= first].all()
    return f"{nodes} nodes are faster than one from batch {first} on" if from_there_on else ""


def describe_parts(rows: pd.DataFrame) -> str:
    """Say which part besides computing takes most of a step, on most nodes."""
    rows = evidence.select(rows[rows["nodes"] > 1])
    rows = rows[rows["nodes"] == rows["nodes"].max()]
    if rows.empty:
        return ""
    seconds = rows.pivot_table("seconds", "batch_per_worker", "part", "sum")
    shares = seconds.div(seconds.sum(axis=1), axis=0)
    part = str(shares[[name for name in _PARTS if name in shares]].iloc[0].idxmax())
    said = _listed(
        {batch: shares.loc[batch, part] for batch in shares.index[[-1, 0]]}, " of a step"
    )
    return f"On {rows['nodes'].iloc[0]} nodes {_PARTS[part]} takes {said}"


def describe_strategies(rows: pd.DataFrame) -> str:
    """Say which strategy trains most examples per second, and whether it is clearly ahead."""
    rows = rows[(rows["nodes"] > 1) & (rows["exchange"] != comparisons.DEVICES)]
    rows = evidence.select(rows)
    groups = [group for _, group in rows.groupby("nodes") if group["strategy"].nunique() > 1]
    if not groups:
        return ""
    group = comparisons.most_strategies(groups)
    best = group.sort_values("examples_per_s").iloc[-1]
    titles, others = strategy_titles(group), comparisons.not_slower(group)
    fastest = f"On {best['nodes']} nodes {titles[best['strategy']]} is"
    if others:
        return f"{fastest} not clearly faster than {titles[others[0]]}"
    return f"{fastest} faster than every other strategy"


def _ends(rows: pd.DataFrame) -> list[dict[Any, Any]]:
    """Return the points that count on most nodes at the largest and at the smallest batch."""
    told = rows[rows["certain_low"].notna()]
    told = told[told["nodes"] == told["nodes"].max()].sort_values("batch_per_worker")
    ends = told.iloc[[-1, 0]] if len(told) > 1 else told
    return [dict(row) for row in ends.to_dict("records")]


def _how_fast(row: dict[Any, Any]) -> str:
    at = f"at batch {row['batch_per_worker']}"
    if row["certain_low"] <= 1 <= row["certain_high"]:
        return f"not clearly faster than one {at}"
    speedup = f"{row['speedup']:#.2g}".removesuffix(".")
    return f"{speedup} times as fast as one {at}"


def _listed(shares: dict[Any, float], of: str) -> str:
    """Return shares by batch in words; the first says what they are `of`."""
    written = [f"{write_percent(share)}{{}} at batch {batch}" for batch, share in shares.items()]
    return ", ".join(written).format(of, "").replace(" %", "\u00a0%")

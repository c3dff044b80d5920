"""Write the sentence that states what a chart shows and becomes its title.

Only points that count as evidence are used. If none counts, the sentence is about the published
points, if the chart shows any. Otherwise the sentence is empty, and the title says what is plotted.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from nodewise.core.cell import node_in_words
from nodewise.core.units import counted, write_number
from nodewise.report import evidence
from nodewise.report.figures._encodings import strategy_titles
from nodewise.report.figures._words import listed, percent, times
from nodewise.results import comparisons

_PARTS = {
    "input": "waiting for examples",
    "wait": "waiting for other workers",
    "communicate": "communicating",
    "apply": "updating the weights",
}
_SERIES = ["experiment", "kind", "cluster", "line", "batch_per_worker"]
_PUBLISHED = "Published: "
_NEARLY_ALL = 0.99  # share of a step
_EACH = "with each strategy"
_SAME = 0.01  # largest relative difference of two speed-ups that are taken as equal


def with_certain(rows: pd.DataFrame, tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Add the intervals of speed-ups, `certain_low` and `certain_high`.

    They are NaN for points that do not count as evidence, and for points whose `speedup` differs
    from the one that the interval belongs to.
    """
    told = comparisons.on_several_nodes(tables["curves"])
    told = evidence.select(evidence.check_times(told, tables, other="_one"))
    ends = {"speedup_low": "certain_low", "speedup_high": "certain_high", "speedup": "certain"}
    at = ["cell_id", "line"]
    rows = rows.merge(told[[*at, *ends]].rename(columns=ends), "left", at)
    same = (rows["certain"] / rows["speedup"] - 1).abs() < _SAME
    names = ["certain_low", "certain_high"]
    return rows.assign(**{name: rows[name].where(same) for name in names})


def describe_speedups(rows: pd.DataFrame) -> str:
    """State the speed-up on the most nodes, at the largest and the smallest batch."""
    ends = _ends(rows)
    if not ends:
        return ""
    said = [_how_fast(row) for row in ends]
    if len(said) > 1:  # the second clause need not repeat the comparison
        said[1] = said[1].replace(" as fast as one", "").replace(" than one", "")
    return f"{ends[0]['nodes']} nodes are {', '.join(said)}"


def describe_efficiencies(rows: pd.DataFrame) -> str:
    """State the efficiency on the most nodes, at the largest and the smallest batch."""
    ends = _ends(rows)
    if not ends:
        return ""
    shares = {row["batch_per_worker"]: row["efficiency"] for row in ends}
    return f"{ends[0]['nodes']} nodes reach {listed(shares, ' of ideal scaling')}"


def describe_batches(rows: pd.DataFrame) -> str:
    """State from which batch on the most nodes are faster than one.

    Empty if fewer than two batches count, or if a larger batch than that is not clearly faster.
    """
    told = rows[rows["certain_low"].notna()]
    if told["batch_per_worker"].nunique() < 2:
        return ""
    line = told[told["nodes"] == told["nodes"].max()].sort_values("batch_per_worker")
    nodes, faster = line["nodes"].iloc[0], line["certain_low"] > 1
    if not faster.any():
        return f"{nodes} nodes are not clearly faster than one at any batch"
    first = line.loc[faster, "batch_per_worker"].iloc[0]
    from_there_on = faster[line["batch_per_worker"] >= first].all()
    return f"{nodes} nodes are faster than one from batch {first} on" if from_there_on else ""


def describe_parts(rows: pd.DataFrame) -> str:
    """State which part besides computing takes most of a step, on the most nodes.

    It is the largest such part at the smallest batch. If computing takes nearly all of every step,
    the sentence says that.
    """
    rows = evidence.select(rows[rows["nodes"] > 1])
    rows = rows[rows["nodes"] == rows["nodes"].max()]
    if rows.empty:
        return ""
    shares = _shares(rows, "batch_per_worker")
    on = f"On {rows['nodes'].iloc[0]} nodes"
    if shares["compute"].min() > _NEARLY_ALL:
        return f"{on} computing takes more than {percent(_NEARLY_ALL)} of a step"
    part = str(shares[[name for name in _PARTS if name in shares]].iloc[0].idxmax())
    told = shares[part].dropna()
    said = listed({batch: told[batch] for batch in told.index[[-1, 0]]}, " of a step")
    return f"{on} {_PARTS[part]} takes {said}"


def describe_strategies(rows: pd.DataFrame) -> str:
    """State which strategy trains the most examples per second, and whether it is clearly ahead.

    Strategies that train on devices of one process are not compared.
    """
    several = rows[rows["nodes"] > 1]
    on_devices = comparisons.on_devices(several)
    rows = evidence.select(several[~on_devices])
    groups = [group for _, group in rows.groupby("nodes") if group["strategy"].nunique() > 1]
    if not groups:
        return ""
    group = comparisons.most_strategies(groups)
    best = group.sort_values("examples_per_s").iloc[-1]
    titles, others = strategy_titles(group), comparisons.not_slower(group)
    network = " with a network between them" if on_devices.any() else ""
    fastest = f"On {best['nodes']} nodes{network}, {titles[best['strategy']]} is"
    if others:
        return f"{fastest} not clearly faster than {titles[others[0]]}"
    return f"{fastest} faster than every other strategy"


def describe_parts_of_strategies(rows: pd.DataFrame) -> str:
    """State which part besides computing takes most of a step, in the mean over strategies.

    The sentence has the shares with the strategies for which the part is smallest and largest.
    """
    rows = evidence.select(rows)
    if rows.empty:
        return ""
    shares = _shares(rows, "strategy")
    on = f"On {rows['nodes'].iloc[0]} nodes"
    if shares["compute"].min() > _NEARLY_ALL:
        return f"{on} computing takes more than {percent(_NEARLY_ALL)} of a step {_EACH}"
    part = str(shares[[name for name in _PARTS if name in shares]].mean().idxmax())
    ranked, titles = shares[part].dropna().sort_values(), strategy_titles(rows)
    told = {titles[name]: ranked[name] for name in ranked.index[[0, -1]]}
    said = listed(told, " of a step", "with")
    if len(told) > 1 and percent(ranked.iloc[0]) == percent(ranked.iloc[-1]):
        said = f"{percent(ranked.iloc[0])} of a step {_EACH}"
    return f"{on} {_PARTS[part]} takes {said}"


def describe_times(rows: pd.DataFrame) -> str:
    """State the training times on the most nodes and on one node, at the largest batch."""
    shown = _most_nodes(rows[rows["certain_low"].notna()], rows, rows)
    if shown is None:
        return ""
    whose, point, one = shown
    batch, nodes, epochs = point["batch_per_worker"], point["nodes"], point["epochs"]
    if point["certain_low"] <= 1 <= point["certain_high"]:
        return f"{nodes} nodes are not clearly faster than one at batch {batch}"
    ours = rows.loc[rows["kind"] != "published", "cluster"]
    where = f" ({node_in_words(point['cluster'])})" if not whose and ours.nunique() > 1 else ""
    took, alone = (write_number(of["seconds"], "s") for of in (point, one))
    take = "takes" if epochs == 1 else "take"
    return (
        f"{whose}{counted(epochs, 'epoch')} {take} {took} on {nodes} nodes, {alone} on one, "
        f"at batch {batch}{where}"
    )


def describe_accuracies(rows: pd.DataFrame) -> str:
    """State the training accuracies on the most nodes and on one node, at the largest batch."""
    several = rows[(rows["nodes"] > 1) & rows["accuracy_one"].notna()]
    shown = _most_nodes(evidence.select(several), several, rows)
    if shown is None:
        return ""
    whose, point, one = shown
    reached, alone = (write_number(of["accuracy"], "accuracy") for of in (point, one))
    return (
        f"{whose}{reached} training accuracy on {point['nodes']} nodes, {alone} on one, "
        f"after {counted(point['epochs'], 'epoch')} at batch {point['batch_per_worker']}"
    )


def describe_last_epoch(rows: pd.DataFrame, value: str, titles: Mapping[str, str]) -> str:
    """State the range of a value after the last epoch.

    The strategies at both ends are named if each line is another strategy, each has enough
    launches, and the launches of the two strategies do not overlap.

    Args:
        rows: the last epoch of each line, with its `least` and `most` over the launches.
        value: `loss` or `accuracy`.
        titles: the titles of the strategies, by name.
    """
    ranked = rows.sort_values(value)
    first, last = ranked.iloc[0], ranked.iloc[-1]
    ends = [write_number(of[value], "accuracy") for of in (first, last)]
    apart = first["most"] < last["least"] and ranked["repeats"].min() >= evidence.LAUNCHES
    if apart and rows["strategy"].nunique() == len(rows):
        names = [titles[of["strategy"]] for of in (first, last)]
        said = ", ".join(f"{end} with {name}" for end, name in zip(ends, names, strict=True))
    else:
        said = " to ".join(dict.fromkeys(ends))
    return f"After {counted(rows['epoch'].max(), 'epoch')} the training {value} is {said}"


def describe_all_reduces(rows: pd.DataFrame) -> str:
    """State how much longer an all-reduce takes on the most nodes than on the fewest.

    It is that of the largest payload.
    """
    rows = rows[rows["payload_bytes"] == rows["payload_bytes"].max()].sort_values("nodes")
    few, many = rows.iloc[0], rows.iloc[-1]
    what = f"An all-reduce of {write_number(many['payload_bytes'], 'B')} takes"
    if len(rows) == 1 or rows["launches"].min() < evidence.LAUNCHES:
        return f"{what} {write_number(many['seconds'], 's')} on {many['nodes']} nodes"
    if many["low"] > few["high"] or many["high"] < few["low"]:
        ratio = times(many["seconds"] / few["seconds"])
        return f"{what} {ratio} as long on {many['nodes']} nodes as on {few['nodes']}"
    return f"{what} not clearly longer on {many['nodes']} nodes than on {few['nodes']}"


def describe_improvements(rows: pd.DataFrame) -> str:
    """State the share of the training time that the most nodes save, as published and here."""
    rows = rows[(rows["model"] != "") & (rows["nodes"] == rows["nodes"].max())]
    launches = rows["repeats"].astype("Int64").fillna(0)  # unknown for published points
    counts = (launches >= evidence.LAUNCHES) & (rows["flags"] == "")
    printed, ours = rows[rows["kind"] == "published"], rows[counts]
    if printed.empty:
        return ""
    theirs = percent(printed["saved"].min(), printed["saved"].max())
    said = f"{_PUBLISHED}{rows['nodes'].iloc[0]} nodes save {theirs} of the training time"
    if ours.empty:
        return said
    models = f"{ours['model'].nunique()} of {counted(printed['model'].nunique(), 'model')}"
    return f"{said}; here {percent(ours['saved'].min(), ours['saved'].max())}, for {models}"


def describe_models(rows: pd.DataFrame) -> str:
    """State which model computes most per byte that it sends, and by which factor more."""
    ranked = rows.sort_values("flops_per_byte")
    least, most = ranked.iloc[0], ranked.iloc[-1]
    if len(ranked) == 1:
        operations = write_number(most["flops_per_byte"], "FLOP")
        return f"{most['model']} computes {operations} for each byte that it sends"
    ratio = times(most["flops_per_byte"] / least["flops_per_byte"])
    return f"{most['model']} computes {ratio} as much per byte sent as {least['model']}"


def _shares(rows: pd.DataFrame, by: str) -> pd.DataFrame:
    """Return the share of each part in a step; rows are values of the column `by`."""
    seconds = rows.pivot_table("seconds", by, "part", "sum")
    return seconds.div(seconds.sum(axis=1), axis=0)


def _ends(rows: pd.DataFrame) -> list[dict[Any, Any]]:
    """Return the points on the most nodes that count, at the largest and the smallest batch."""
    told = rows[rows["certain_low"].notna()]
    told = told[told["nodes"] == told["nodes"].max()].sort_values("batch_per_worker")
    ends = told.iloc[[-1, 0]] if len(told) > 1 else told
    return [dict(row) for row in ends.to_dict("records")]


def _how_fast(row: dict[Any, Any]) -> str:
    at = f"at batch {row['batch_per_worker']}"
    if row["certain_low"] <= 1 <= row["certain_high"]:
        return f"not clearly faster than one {at}"
    return f"{times(row['speedup'])} as fast as one {at}"


def _most_nodes(
    counting: pd.DataFrame, others: pd.DataFrame, rows: pd.DataFrame
) -> tuple[str, dict[Any, Any], dict[Any, Any]] | None:
    """Find the point on the most nodes, at the largest batch, and the same point on one node.

    Args:
        counting: points that count as evidence.
        others: points of which the published ones are used if `counting` is empty.
        rows: points among which the one on one node is looked up.

    Returns:
        The beginning of the sentence, which says so if the points are published; the point; and the
        one on one node. None if one of the points is missing.
    """
    whose = ""
    if counting.empty:
        whose = _PUBLISHED
        counting = others[(others["kind"] == "published") & (others["nodes"] > 1)]
    if counting.empty:
        return None
    point = counting.sort_values(["nodes", "batch_per_worker"], kind="stable").iloc[-1]
    one = rows[(rows["nodes"] == 1) & (rows[_SERIES] == point[_SERIES]).all(axis=1)]
    return (whose, dict(point), dict(one.iloc[0])) if len(one) else None

"""Figures of a step: strategies side by side, and where the time of a step goes."""

import pandas as pd

from nodewise.core.units import counted
from nodewise.report import evidence
from nodewise.report.context import ReportContext
from nodewise.report.figure import Axis
from nodewise.report.figures import _rows, figure
from nodewise.report.theme import PART_COLOURS
from nodewise.results import comparisons, queries
from nodewise.results.queries import LAUNCHES, TIMED_STEP

_COMPARED = ["experiment", "model", "dataset", "batch_per_worker", "kind"]
_BAR = [*_rows.LINE, "strategy", "batch_per_worker", "nodes"]


@figure(
    "strategies",
    each=_COMPARED,
    plots="Examples per second by strategy",
    mark="point",
    x=Axis("examples_per_s", "Examples per second", "log", unit="/s"),
    y=Axis("strategy", "", "names"),
    interval=("examples_per_s_low", "examples_per_s_high"),
    colour="nodes",
    title=[
        "On {nodes} nodes, {strategy} trains {examples_per_s} examples a second, "
        "{strategy_first} {examples_per_s_first}",
    ],
    told="nodes > 1 and not on_devices",
    rank=["nodes", "examples_per_s"],
    reading=(
        "The fastest strategy stands uppermost. The batch per worker is the same everywhere: more "
        "nodes make larger steps. Emulated devices of MirroredStrategy are hollow: they are one "
        "process, and show how it works, not how it scales."
    ),
)
def strategies(study: ReportContext) -> pd.DataFrame:
    """Return the throughput of experiments that compare strategies, the fastest first."""
    rows = queries.compared_strategies(study.tables["curves"])
    rows = comparisons.with_rate_intervals(evidence.check_times(rows, study.tables))
    rows = rows.assign(on_devices=comparisons.on_devices(rows))
    emulated = rows["kind"].str.startswith("emulated") & (rows["nodes"] > 1)
    one_process = "devices of one process are no nodes"
    rows["flags"] = rows["flags"].mask(rows["on_devices"] & emulated, one_process)
    best = rows.groupby([*_COMPARED, "strategy"])["examples_per_s"].transform("max")
    rows = rows.loc[best.sort_values(ascending=False, kind="stable").index]
    rates = ["examples_per_s", "examples_per_s_low", "examples_per_s_high"]
    values = [*rates, "speedup", "efficiency", "step_time_s", "on_devices", *LAUNCHES, "lacks"]
    return rows[[*_COMPARED, "strategy", "nodes", *values]]


@figure(
    "parts",
    each=_rows.LINE,
    plots="Where the time of a step goes",
    mark="bar",
    x=Axis("seconds", "Time of one step (s)", unit="s"),
    y=Axis("bar", "", "names"),
    interval=(TIMED_STEP[1], TIMED_STEP[2]),
    colour="part",
    facet="batch_per_worker",
    title=[
        "On {nodes} nodes at batch {batch_per_worker}, {share} of a step is computing with "
        "{strategy}, {share_first} with {strategy_first}",
        "On {nodes} nodes, {share} of a step is computing at batch {batch_per_worker}, "
        "{share_first} at batch {batch_per_worker_first}",
        "On {nodes} nodes, {share} of a step is computing at batch {batch_per_worker}",
    ],
    told="nodes > 1 and part == 'compute' and not on_devices",
    rank=["nodes", "panel", "rank"],
    units={"share": "share"},
    reading=(
        "Input is the wait for examples in the timed steps. The other parts come from separate "
        "split steps: the gradient (compute), waiting for other workers (wait), the exchange "
        "(communicate), the update of the weights (apply). An exchange that cannot be timed apart "
        "from computing counts as compute. Split steps are not as long as whole ones, so the parts "
        "are scaled: together they are as long as the median step."
    ),
)
def parts(study: ReportContext) -> pd.DataFrame:
    """Return the parts of steps: by nodes, or of an experiment on strategies by strategy."""
    curves = study.tables["curves"]
    compared = queries.compared_parts(curves).assign(line="")
    over_nodes = _rows.without_short(curves, queries.step_parts(curves)).assign(strategy="")
    rows = pd.concat([over_nodes, compared], ignore_index=True)
    rows = evidence.check_times(rows, study.tables)
    whole = rows.groupby(_BAR)["seconds"].transform("sum")
    share = rows["seconds"] / whole
    step = rows[TIMED_STEP[0]]
    bars = [
        study.strategy_title(strategy) if strategy else counted(nodes, "node")
        for strategy, nodes in rows[["strategy", "nodes"]].to_numpy()
    ]
    rows = rows.assign(
        bar=pd.Series(bars, rows.index, dtype="str"),
        seconds=share * step,
        share=share,
        on_devices=rows["cell_id"].isin(curves.loc[comparisons.on_devices(curves), "cell_id"]),
        panel=rows["batch_per_worker"].where(rows["strategy"] != "", 0),  # strategies in each batch
        rank=share.where(rows["strategy"] != "", rows["batch_per_worker"]),
        place=rows["part"].map([*PART_COLOURS].index),
        length=step.where(rows["strategy"] != "", rows["nodes"]),
    ).sort_values(["length", "place"], kind="stable")
    shown = ["bar", "part", "seconds", "share", *TIMED_STEP, *LAUNCHES, "lacks"]
    return rows[[*_BAR, *shown, "on_devices", "panel", "rank"]]

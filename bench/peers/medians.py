"""The file of launches of our strategies and of other frameworks, and its medians.

The file has measurements only; `medians` derives the table that the site shows. The unit of
repetition is a round, in which all ways (strategies and peers) are measured one right after
another.

    python bench/peers/medians.py data/bench/peers.json

writes the medians of a file beside it, as CSV.
"""

import sys
from datetime import datetime
from pathlib import Path
from typing import Literal

import pandas as pd
from pydantic import Field

from nodewise.core.cell import AnyCluster, Frozen
from nodewise.core.intervals import pooled_factors
from nodewise.core.schema import read_json
from nodewise.results.record import Kind, Provenance
from nodewise.results.table_files import write_csv

OURS, PEERS = "custom_loop", ("horovod", "ddp")
PLACE = ["kind", "model", "nodes", "batch"]
_VALUES = ["step", "added", "of_longer", "all_reduce"]


class SameWork(Frozen):
    """Mean losses of ten steps from the same weights on the same examples.

    `off` is the largest relative difference from the losses of the first way.
    """

    model: str
    way: str
    nodes: int
    losses: list[float]
    off: float


class Fit(Frozen):
    """Examples per second on one node with one core and no limits, by way and round."""

    kind: Literal["measured"] = "measured"
    model: str
    batch: int
    rates: dict[str, list[float]]


class Run(Frozen):
    """One launch of a way.

    `step_s` is the mean of the timed steps of the slowest worker, in wall seconds. `all_reduce_s`
    is the median time to sum a buffer of the size of the gradient, after all workers have arrived;
    None for a way without all-reduce. `sent_bytes` is the mean over nodes of the bytes that a node
    sends per step; None if not counted. `outside` has a message for each quiet-machine threshold
    that failed.
    """

    kind: Kind
    model: str
    way: str
    nodes: int
    batch: int
    round: int
    step_s: float
    all_reduce_s: float | None
    payload_bytes: int
    sent_bytes: float | None
    outside: list[str]


class Results(Frozen):
    """One comparison with peers. All times are wall times."""

    schema_version: Literal[3] = 3
    started_at: datetime
    finished_at: datetime
    cluster: AnyCluster
    batch: int
    provenance: Provenance
    same_work: list[SameWork]
    fits: list[Fit]
    runs: list[Run] = Field(min_length=1)


def medians(results: Results) -> pd.DataFrame:
    """Return medians over rounds, with 90 % intervals from the spread pooled over one `what`.

    Columns are `PLACE`, way, peer, what, median, low, high (NaN for a single round) and rounds.
    `what` is one of:
        step: seconds of a step.
        added: seconds of a step minus those of one on one node, in the same round.
        of_longer: a step relative to the longer of computing (a step on one node) and all-reduce.
        all_reduce: time of an all-reduce relative to `wire_s`, that of a ring's bytes on the link:
            2(n−1)/n times the payload (P. Patarasuk and X. Yuan, Bandwidth optimal all-reduce
            algorithms for clusters of workstations, J. Parallel Distrib. Comput. 69, 2009).
        rate: examples per second of our loop relative to those of another way, on one node.
    With a `peer`, the value is the ratio to that of the peer, in the same round.
    """
    runs = pd.DataFrame([run.model_dump() for run in results.runs]).astype({"all_reduce_s": float})
    same = ["kind", "model", "batch", "way", "round"]
    alone = runs.loc[runs["nodes"] == 1, [*same, "step_s"]]
    runs = runs.merge(alone, "left", same, suffixes=("", "_one"))
    several = runs["nodes"] > 1
    sent = 2 * (runs["nodes"] - 1) / runs["nodes"] * runs["payload_bytes"]
    runs["wire_s"] = 8 * sent / results.cluster.link_bit_s
    runs = runs.assign(
        step=runs["step_s"],
        added=(runs["step_s"] - runs["step_s_one"]).where(several),
        of_longer=(
            runs["step_s"] / runs[["step_s_one", "all_reduce_s"]].max(axis=1, skipna=False)
        ).where(several),
        all_reduce=(runs["all_reduce_s"] / runs["wire_s"]).where(several),
    )
    key = [*PLACE, "way", "peer", "what"]
    facts = [*PLACE, "way", "payload_bytes", "wire_s"]
    values = runs.melt([*facts, "round"], _VALUES, "what").dropna(subset="value").assign(peer="")
    values = values[values.groupby([*PLACE, "way", "what"])["value"].transform("min") > 0]
    peers = values.loc[values["way"].isin(PEERS), [*PLACE, "way", "what", "round", "value"]]
    both = values[~values["way"].isin(PEERS) & values["what"].isin(["step", "added"])].merge(
        peers, "inner", [*PLACE, "what", "round"], suffixes=("", "_peer")
    )
    ratios = both.assign(value=both["value"] / both["value_peer"], peer=both["way_peer"])
    rates = [
        {"kind": fit.kind, "model": fit.model, "nodes": 1, "batch": fit.batch, "way": OURS}
        | {"peer": way, "what": "rate", "round": number, "value": ours / theirs}
        for fit in results.fits
        for way in sorted(fit.rates.keys() - {OURS})
        for number, (ours, theirs) in enumerate(zip(fit.rates[OURS], fit.rates[way], strict=True))
    ]
    pools = [of for _, of in values.groupby("what")] + [of for _, of in ratios.groupby("what")]
    pools += [of for _, of in pd.DataFrame(rates).groupby("model")] if rates else []
    return pd.concat([_summary(pool, key) for pool in pools], ignore_index=True)


def _summary(pool: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    """Return the median of each group of a pool, with intervals from its pooled spread."""
    groups = pool.groupby(key, sort=False)["value"]
    factors = pooled_factors([values for _, values in groups])
    rows = groups.agg(median="median", rounds="size").reset_index()
    facts = pool.drop_duplicates(key).drop(columns=["value", "round"])
    return rows.assign(low=rows["median"] / factors, high=rows["median"] * factors).merge(facts)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write_csv(medians(read_json(Results, Path(name))), Path(name).with_suffix(".csv"))

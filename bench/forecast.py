"""Measure how good forecasts from one node are, on all records that have a one-node time.

For each strategy, prints the hidden share that it declares beside the
median of the records. Also prints the errors if the share is taken from other models' records.

python bench/forecast.py results/published/tables
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from nodewise.predict.answers import Job
from nodewise.predict.curve_groups import find_groups
from nodewise.predict.forecast import Link, forecast, ring_s
from nodewise.predict.known_links import link_of
from nodewise.results.table_files import read_tables
from nodewise.strategies import STRATEGIES

HIDDEN = {name: entry.exchange.hidden_share or 0.0 for name, entry in STRATEGIES.items()}


def forecasts(points: pd.DataFrame) -> pd.DataFrame:
    """Return a row per point of a ring on several emulated nodes: known times and the measured one.

    `one_s` is a step on one node, `ring_s` the time that the ring adds, `step_s` the measured step.
    """
    rows = []
    for group in find_groups(points):
        link = link_of(group.rows.iloc[0]["cluster"])
        if group.law.name != "ring" or link is None:
            continue
        known = Link(1 / link.seconds_per_byte, 0.0)
        for (_, batch), line in group.fitted.rows.groupby(["curve", "batch_per_worker"]):
            one = line.loc[line["nodes"] == 1, "step_time_s"]
            for row in line[line["nodes"] > 1].to_dict("records") if len(one) else ():
                payload, nodes = float(row["payload_bytes"]), [int(row["nodes"])]
                one_s, hidden = float(one.iloc[0]), HIDDEN[row["strategy"]]
                (sending_s,) = ring_s(np.array(nodes), payload, known)
                told = forecast(
                    one_s, payload, known, nodes, Job(), batch=batch, hidden=hidden
                ).table.iloc[-1]
                about = {name: row[name] for name in ("model", "strategy", "nodes")}
                rows.append(
                    about
                    | {
                        "one_s": one_s,
                        "ring_s": sending_s,
                        "step_s": row["step_time_s"],
                        "error": told["step_s"] / row["step_time_s"] - 1,
                        "covered": told["step_s_low"] <= row["step_time_s"] <= told["step_s_high"],
                    }
                )
    return pd.DataFrame(rows)


def hidden_shares(rows: pd.DataFrame) -> pd.Series:
    """Return the median hidden share, per strategy, of the shorter of computing and sending."""
    hidden = rows["one_s"] + rows["ring_s"] - rows["step_s"]
    shares = hidden / rows[["one_s", "ring_s"]].min(axis=1)
    return shares.groupby(rows["strategy"]).median().clip(lower=0)


def errors_with(shares: pd.Series, rows: pd.DataFrame) -> pd.Series:
    """Return the relative errors if these shares are hidden; 0 for strategies without a share."""
    hidden = rows["strategy"].map(shares).fillna(0.0) * rows[["one_s", "ring_s"]].min(axis=1)
    return (rows["one_s"] + rows["ring_s"] - hidden) / rows["step_s"] - 1


def left_out(rows: pd.DataFrame) -> pd.Series:
    """Return the relative errors with shares from the other models' records."""
    parts = [
        errors_with(hidden_shares(rows[rows["model"] != model]), own)
        for model, own in rows.groupby("model")
    ]
    return pd.concat(parts)


def summary(rows: pd.DataFrame, by: str) -> pd.DataFrame:
    """Return, per group, the median error, and the median and 90th percentile of its size."""
    groups = rows.assign(size=rows["error"].abs()).groupby(by)
    return pd.DataFrame(
        {
            "points": groups.size(),
            "signed median": groups["error"].median(),
            "median": groups["size"].median(),
            "p90": groups["size"].quantile(0.9),
            "covered": groups["covered"].mean(),
        }
    ).round(3)


def line(title: str, errors: pd.Series) -> str:
    """Return a line of text that summarises errors."""
    off = errors.abs()
    spread = np.sqrt((np.log1p(errors) ** 2).mean())
    return (
        f"{title}: {len(off)} points, median {off.median():.1%}, 90 % {off.quantile(0.9):.1%}, "
        f"spread {spread:.3f}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="bench/forecast.py", description=__doc__.splitlines()[0])
    parser.add_argument("tables", type=Path, help="the folder of tables of a study")
    found = forecasts(read_tables(parser.parse_args().tables)["curve_points"])
    print(line("Nothing hidden", errors_with(pd.Series(dtype=float), found)))
    print(line("Shares as nodewise has them", found["error"]))
    print(line("Shares of the other models", left_out(found)))
    shares = pd.DataFrame({"measured": hidden_shares(found), "taken": pd.Series(HIDDEN)})
    print(f"\n{shares.round(2).to_string()}")
    for column in ("model", "strategy", "nodes"):
        print(f"\n{summary(found, column).to_string()}")

"""How good forecasts from one node are, on all committed records that have a one-node time.

python bench/forecast.py results/study/tables
"""

import sys
from pathlib import Path

import pandas as pd

from nodewise.predict.curve_groups import find_groups
from nodewise.predict.forecast import Link, forecast_rows
from nodewise.predict.link_rates import link_of
from nodewise.results.table_files import read_tables


def forecasts(points: pd.DataFrame) -> pd.DataFrame:
    """Return a row per point of a ring on several emulated nodes, with the forecast's `error`."""
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
                (told,) = forecast_rows(float(one.iloc[0]), payload, int(batch), known, nodes)
                error = told["step_time_s"] / row["step_time_s"] - 1
                inside = told["low"] <= row["step_time_s"] <= told["high"]
                about = {name: row[name] for name in ("model", "strategy", "nodes")}
                rows.append(about | {"error": error, "covered": inside})
    return pd.DataFrame(rows)


def summary(rows: pd.DataFrame, by: str) -> pd.DataFrame:
    """Return the errors of groups: signed median, and median and 90th percentile of their size."""
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


if __name__ == "__main__":
    found = forecasts(read_tables(Path(sys.argv[1]))["curve_points"])
    off = found["error"].abs()
    print(f"{len(off)} points: median {off.median():.1%}, 90 % {off.quantile(0.9):.1%}")
    for column in ("model", "strategy", "nodes"):
        print(f"\n{summary(found, column).to_string()}")

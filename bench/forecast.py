"""How good forecasts from one node are, on all committed records that have a one-node time.

python bench/forecast.py results/study/tables
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from nodewise.predict.curve_groups import find_groups
from nodewise.predict.forecast import Link, forecast_rows
from nodewise.predict.link_rates import link_of
from nodewise.results.table_files import read_tables


def errors(points: pd.DataFrame) -> list[float]:
    """Return |forecast / measured − 1| of every point of a ring on several emulated nodes."""
    found = []
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
                found.append(abs(told["step_time_s"] / row["step_time_s"] - 1))
    return found


if __name__ == "__main__":
    tables = read_tables(Path(sys.argv[1]))
    off = np.array(errors(tables["curve_points"]))
    print(f"{len(off)} points: median {np.median(off):.1%}, 90 % {np.quantile(off, 0.9):.1%}")

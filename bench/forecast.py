"""Measure how good forecasts are: on published cases with publishers left out, and on our records.

Of each published case, one point is given (or one more: a whole node, or twice the devices). The
others are forecast with constants that were learned without the case's publisher. A point counts
1/√(points of its case), a case 1/√(cases of its publisher). Errors are forecast/measured − 1 or the
inverse, whichever is larger. Of our emulated records, the time of one node is given.

`--write` also writes what the site shows, in `data/published/forecast`: `judged.csv`, the table of
forecasts, and `predicted_cases.csv`, each forecast from one point.

python bench/forecast.py [results/published/tables] [--write]
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from forecast_constants import Case, cases, learn

from nodewise.predict.cluster_links import read_link
from nodewise.predict.cluster_steps import Topology, Training, forecast_throughputs
from nodewise.predict.fit import interval_of
from nodewise.predict.fit_curves import find_groups
from nodewise.results import studies
from nodewise.results.table_files import read_tables
from nodewise.strategies import STRATEGIES

JUDGED = studies.FOLDER / "forecast/judged.csv"
_WRITTEN = [
    *("case", "publisher", "link", "given_devices", "given_value"),
    *("devices", "value", "predicted", "low", "high"),
]
Second = Callable[[Case], tuple[int, float] | None]
"""Returns the second given point of a case, devices and throughput; None if it has none."""


def judged(
    known: dict[str, Any], found: list[Case], second: Second | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the forecast of each point that is not given.

    Args:
        known: the constants by publisher, learned without it.
        found: the cases. Those over links that are not known are left out.
        second: the second given point; cases without it are left out.
    """
    for number, case in enumerate(found):
        more = second(case) if second else None
        if case.within == "unknown" or (second is not None and more is None):
            continue
        points = dict([case.given, *([more] if more else [])])
        asked = [(count, value) for count, value in case.others if count not in points]
        if second is same_level:  # a second point says nothing about the other level
            inside = case.cluster.devices_per_node
            asked = [pair for pair in asked if (pair[0] <= inside) == (max(points) <= inside)]
        if not asked:
            continue
        draws = forecast_throughputs(
            case.cluster,
            replace(case.training, measured=points),
            [n for n, _ in asked],
            known[case.publisher],
        )
        for (count, value), column in zip(asked, draws.T, strict=True):
            low, high = interval_of(column)
            yield {
                "case": number,
                "name": case.name,
                "publisher": case.publisher,
                "kind": case.kind_of(count),
                "given_devices": case.given[0],
                "given_value": case.given[1],
                "devices": count,
                "value": value,
                "predicted": column[0],
                "low": low,
                "high": high,
                "inside": count <= case.cluster.devices_per_node,
                "log_error": np.log(column[0] / value),
                "perfect": np.log(case.given[1] * count / case.given[0] / value),
                "covered": low <= value <= high,
                "log_width": np.log(high / low) / 2,
            }


@cache
def without_publishers() -> dict[str, dict[str, Any]]:
    """Return the constants by publisher, learned without it."""
    found = list(cases())
    publishers = {case.publisher for case in found}
    return {one: learn([case for case in found if case.publisher != one]) for one in publishers}


def all_judged(second: Second | None = None) -> pd.DataFrame:
    """Return the weighted forecasts of all published cases, with each publisher left out."""
    return weighted(pd.DataFrame(judged(without_publishers(), list(cases()), second)))


def summary(rows: pd.DataFrame) -> dict[str, Any]:
    """Return points, publishers, weighted errors, coverage and width of the intervals."""
    weights = rows["weight"]
    size = np.expm1(rows["log_error"].abs())
    return {
        "points": len(rows),
        "publishers": rows["publisher"].nunique(),
        "median": quantile(size, weights, 0.5),
        "mean_log": float(np.average(rows["log_error"].abs(), weights=weights)),
        "p90": quantile(size, weights, 0.9),
        "perfect_median": quantile(np.expm1(rows["perfect"].abs()), weights, 0.5),
        "covered": float(np.average(rows["covered"], weights=weights)),
        "width": float(np.exp(quantile(rows["log_width"], weights, 0.5)) - 1),
    }


def weighted(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the weight of each point."""
    points = rows.groupby("case")["kind"].transform("size")
    case_count = rows.groupby("publisher")["case"].transform("nunique")
    return rows.assign(weight=1 / np.sqrt(points * case_count))


def quantile(values: pd.Series, weights: pd.Series, share: float) -> float:
    """Return a weighted quantile."""
    order = np.argsort(values.to_numpy())
    sums = weights.to_numpy()[order].cumsum()
    return float(values.to_numpy()[order][np.searchsorted(sums, share * sums[-1])])


def whole_node(case: Case) -> tuple[int, float] | None:
    """Return the point of a whole node, if fewer devices are given."""
    per_node = case.cluster.devices_per_node
    nodes = [point for point in case.others if point[0] == per_node > case.given[0]]
    return nodes[0] if nodes else None


def same_level(case: Case) -> tuple[int, float] | None:
    """Return the point of twice the given devices, if these are in the same node or full nodes."""
    first, per_node = case.given[0], case.cluster.devices_per_node
    twice = [point for point in case.others if point[0] == 2 * first]
    return twice[0] if twice and (2 * first <= per_node or first >= per_node) else None


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the summary of all points and of each kind of link."""
    parts: dict[Any, pd.DataFrame] = {"all": rows, "within a node": rows[rows["inside"]]}
    parts |= dict(iter(rows.groupby("kind")))
    return pd.DataFrame(
        [{"link": kind} | summary(part) for kind, part in parts.items() if len(part)]
    )


def own_errors(tables: Path) -> pd.Series:
    """Return forecast/measured − 1 of our emulated rings, given one node."""
    errors = []
    for group in find_groups(read_tables(tables)["curve_points"]):
        first = group.rows.iloc[0]
        rate_mbit = first["rate_mbit"] / first["cpu_share"]  # in the node's own time
        if group.law.name != "ring" or np.isnan(rate_mbit):
            continue
        cluster = Topology(1, None, read_link("between", f"{rate_mbit:f}mbit-tcp"))
        for _, line in group.fitted.rows.groupby(["curve", "batch_per_worker"]):
            batch = float(line["batch_per_worker"].iloc[0])
            times = dict(zip(line["nodes"].tolist(), line["step_time_s"].tolist(), strict=True))
            hidden = STRATEGIES[line["strategy"].iloc[0]].exchange.hidden_share or 0.0
            payload = float(line["payload_bytes"].iloc[0])
            measured = {1: batch / times.get(1, np.nan)}
            training = Training(payload / 4, batch=batch, hidden=hidden, measured=measured)
            asked = [count for count in times if count > 1]
            if 1 in times and asked:
                draws = forecast_throughputs(cluster, training, asked)
                errors += [
                    n * batch / value / times[n] - 1
                    for n, value in zip(asked, draws[0], strict=True)
                ]
    return pd.Series(errors)


def agreement() -> pd.DataFrame:
    """Return what `forecast`, which knows the links, and `fit` with `predict` say of a case.

    Given are all points but the one on the most devices.
    """
    known, asked, rows = [], [], []
    for number, case in enumerate(cases()):
        *points, (most, _) = sorted([case.given, *case.others])
        if len(points) < 2:
            continue
        about = {"curve": str(number), "batch_per_device": case.training.batch or 1}
        asked.append(about | {"n_devices": most})
        about |= {"devices_per_node": case.cluster.devices_per_node, "scaling": "weak"}
        about |= {"quantity": "throughput", "unit": "examples/s"}
        known += [about | {"n_devices": count, "value": value} for count, value in points]
        training = replace(case.training, measured=dict(points))
        draws = forecast_throughputs(case.cluster, training, [most])[:, 0]
        low, high = interval_of(draws)
        rows.append({"forecast": draws[0], "forecast_low": low, "forecast_high": high})
    with tempfile.TemporaryDirectory() as folder:
        known_csv, asked_csv, fit_json = (Path(folder) / name for name in ("known", "asked", "fit"))
        pd.DataFrame(known).to_csv(known_csv, index=False)
        pd.DataFrame(asked).to_csv(asked_csv, index=False)
        nodewise("fit", known_csv, "-o", fit_json)
        fitted = json.loads(nodewise("predict", fit_json, "--at", asked_csv, "--json"))
    return pd.DataFrame(rows).join(pd.DataFrame(fitted)[["value", "low", "high"]])


def nodewise(*arguments: str | Path) -> str:
    """Run a command and return what it prints."""
    command = [sys.executable, "-m", "nodewise", *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="bench/forecast.py", description=__doc__.splitlines()[0])
    parser.add_argument("tables", type=Path, nargs="?", help="the folder of tables of a study")
    parser.add_argument("--write", action="store_true", help=f"also write {JUDGED.name}")
    arguments = parser.parse_args()
    givens: dict[str, Second | None] = {
        "one point": None,
        "and a whole node": whole_node,
        "and twice the devices, on the same level": same_level,
    }
    written = []
    for title, second in givens.items():
        rows = all_judged(second)
        shown = table(rows)
        print(f"\nGiven {title}:\n{shown.round(3).to_string(index=False)}")
        of_all = shown[shown["link"] == "all"].assign(link=f"all, {title}")
        written.append(of_all if second else shown)
        if second is None and arguments.write:
            every = JUDGED.with_name("predicted_cases.csv")
            named = rows.assign(case=rows["name"], link=rows["kind"])
            named[_WRITTEN].to_csv(every, index=False, float_format="%.5g")
    if arguments.write:
        pd.concat(written).round(4).to_csv(JUDGED, index=False)
    both = agreement()
    inside = both["forecast"].between(both["low"], both["high"])
    inside &= both["value"].between(both["forecast_low"], both["forecast_high"])
    apart = pd.Series(np.expm1(np.abs(np.log(both["forecast"] / both["value"]))))
    print(
        f"\n`fit` and `forecast`, given all points but the last of {len(both)} cases: apart by "
        f"{apart.median():.1%} in the median, {apart.quantile(0.9):.1%} at the 90th percentile; "
        f"within each other's interval: {inside.mean():.0%}"
    )
    if arguments.tables:
        off = own_errors(arguments.tables).abs()
        print(f"\nOur records: {len(off)}, median {off.median():.1%}, 90 % {off.quantile(0.9):.1%}")


if __name__ == "__main__":
    main()

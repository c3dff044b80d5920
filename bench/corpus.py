"""Predict published curves whose largest number of devices is hidden; compare with simple rules.

For each publisher, only the points of its curves that are not hidden are known. A bootstrap over
publishers, with the same draws for all rules, estimates how probable it is that our predictions are
better than the best rule. Takes half a minute. `--write` also writes
`data/published/curves/predicted_curves.csv`, which the site shows.

python bench/corpus.py [--write]
"""

import argparse
import re
from collections import defaultdict
from collections.abc import Callable
from csv import DictReader
from typing import Any

import numpy as np
import pandas as pd

from nodewise.core.progress import progress
from nodewise.predict.fit import with_interval
from nodewise.predict.similar_curves import (
    PUBLISHED,
    Line,
    SimilarCurves,
    line_of,
    read_published,
)
from nodewise.results.curves import Curve
from nodewise.results.importers import import_curves

PREDICTED = PUBLISHED.with_name("predicted_curves.csv")
DRAWS, SEED = 2000, 1
BEST_RULE = "last slope"


def _last(line: Line, devices: float, share: float) -> float:
    doublings = np.log2(devices / line.devices[-1])
    slope = np.diff(line.efficiency[-2:]) / np.diff(np.log2(line.devices[-2:]))
    return float(line.efficiency[-1] + share * slope.sum() * doublings)


def _straight(line: Line, devices: float) -> float:
    """Continue the time of one example per device as a straight line over devices."""
    slope, fixed = np.polyfit(line.devices, np.exp(-line.efficiency), 1)
    time = fixed + slope * devices
    return float(-np.log(time) if time > 0 else line.efficiency[-1])


RULES: dict[str, Callable[[Line, float], float]] = {
    "same efficiency": lambda line, devices: _last(line, devices, 0.0),
    "last slope": lambda line, devices: _last(line, devices, 1.0),
    "half the last slope": lambda line, devices: _last(line, devices, 0.5),
    "straight line of time": _straight,
}
"""Simple rules for comparison. Each predicts the log efficiency of a curve on some devices."""
_ETHERNET = re.compile("ethernet|gbe|roce", re.IGNORECASE)


def groups_of(curve: Line, about: dict[str, str]) -> list[str]:
    """Return the groups that a curve belongs to."""
    several = curve.hosts[-1] > 1
    groups = ["after 2017" if int(about["year"]) >= 2018 else "before 2018"]
    if curve.strong:
        groups.append("strong")
    else:
        groups.append("weak, several nodes" if several else "weak, in a node")
    if several and _ETHERNET.search(about["interconnect_between"]):
        groups.append("Ethernet")
    return groups


def predict_all() -> pd.DataFrame:
    """Return a row per curve: the columns of `predicted_curves.csv`, and its `groups`."""
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        about = {row["curve"]: row for row in DictReader(file)}
    by_publisher = defaultdict[str, list[tuple[Curve, Line]]](list)
    for curve in import_curves(PUBLISHED).curves:
        if (whole := line_of(curve)) is not None:
            by_publisher[curve.publisher].append((curve, whole))
    rows = []
    with progress("published curves", sum(map(len, by_publisher.values()))) as show:
        for publisher, curves in by_publisher.items():
            seen = [whole.at(slice(-1)) for _, whole in curves]
            others = [line for line in read_published() if line.publisher != publisher]
            similar = SimilarCurves([*others, *seen])
            for curve, whole in curves:
                groups = groups_of(whole, about[curve.name])
                rows.append({"groups": groups} | predict_last(curve, whole, similar))
            show(len(rows))
    return pd.DataFrame(rows)


def predict_last(curve: Curve, whole: Line, similar: SimilarCurves) -> dict[str, Any]:
    """Return the prediction for the largest number of devices, and its error."""
    known = whole.at(slice(-1))
    devices = whole.devices[-1]
    batch = max(curve.measured, key=lambda point: point.nodes).batch_per_worker
    truth = whole.efficiency[-1]
    drawn = similar.draw(known, whole.devices[-1:], whole.hosts[-1:])
    value, low, high = with_interval(drawn)[:, 0]
    times = batch / np.exp([truth, value, low, high])
    own = curve.own_value(times, np.array(devices), np.array(batch))
    return {
        "curve": curve.name,
        "publisher": curve.publisher,
        "devices": int(devices),
        "value": own[0],
        "predicted": own[1],
        "low": min(own[2:]),
        "high": max(own[2:]),
        "covered": low <= truth <= high,
        "width": high - low,
        "ours": value - truth,
        **{rule: predict(known, devices) - truth for rule, predict in RULES.items()},
    }


def bootstrap(rows: pd.DataFrame, rule: str) -> dict[str, float]:
    """Return the share of draws of publishers in which we beat a rule, and the 90 % range.

    Means of absolute log errors are compared; `low` and `high` are 100 times the rule's minus ours.
    """
    by = [rows[rows["publisher"] == publisher] for publisher in rows["publisher"].unique()]
    gain = np.array([(each[rule].abs() - each["ours"].abs()).sum() for each in by])
    size = np.array([len(each) for each in by])
    draws = np.random.default_rng(SEED).integers(len(by), size=(DRAWS, len(by)))
    gains = 100 * gain[draws].sum(axis=1) / size[draws].sum(axis=1)
    low, high = np.quantile(gains, [0.05, 0.95])
    return {"better": float((gains > 0).mean()), "low": float(low), "high": float(high)}


def levels(rows: pd.DataFrame) -> pd.DataFrame:
    """Return errors in % of our predictions and of each rule, and interval widths at 90 % coverage.

    Errors are summarised over curves, and weighted so that each publisher counts the same.

    Args:
        rows: as from `predict_all`, or as written.
    """
    share = 1 / rows.groupby("publisher")["curve"].transform("size")
    found = {}
    for name in rows.loc[:, "ours":]:
        size = rows[name].abs()
        wrong = 100 * np.expm1(rows[name]).abs()
        found[name] = {
            "median": wrong.median(),
            "mean of log": 100 * size.mean(),
            "p90": wrong.quantile(0.9),
            "publishers, median": np.quantile(wrong, 0.5, weights=share, method="inverted_cdf"),
            "publishers, mean of log": 100 * np.average(size, weights=share),
            "width": rows["width"].mean() if name == "ours" else 2 * size.quantile(0.9),
        }
    return pd.DataFrame(found).T.astype(float)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench/corpus.py", description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"also write {PREDICTED.name}")
    arguments = parser.parse_args()
    rows = predict_all()
    if arguments.write:
        rows.drop(columns="groups").to_csv(
            PREDICTED, index=False, float_format="%.5g", lineterminator="\n"
        )
    print(levels(rows).round(2).to_string(), end="\n\n")
    groups = sorted({group for groups in rows["groups"] for group in groups})
    table = {}
    for group in ("all", *groups):
        mine = rows if group == "all" else rows[[group in groups for groups in rows["groups"]]]
        means = {rule: mine[rule].abs().mean() for rule in RULES}
        best = min(means, key=lambda rule: means[rule])
        table[group] = {
            "curves": len(mine),
            "median": 100 * np.expm1(mine["ours"]).abs().median(),
            "mean of log": 100 * mine["ours"].abs().mean(),
            "covered": 100 * mine["covered"].mean(),
            "width": mine["width"].mean(),
            "best rule": best,
            "its mean": 100 * means[best],
            **bootstrap(mine, best),
            f"better than {BEST_RULE}": bootstrap(mine, BEST_RULE)["better"],
        }
    print(pd.DataFrame(table).T.infer_objects().round(2).to_string())


if __name__ == "__main__":
    main()

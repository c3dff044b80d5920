"""How well are published curves predicted, the largest number of devices of each being hidden?

Nothing is learned from the publisher of a curve but the points of its curves that are not hidden.
Beside our predictions stand simple rules. A bootstrap draws publishers, the same for all, and says
how probable it is that we are better than the best rule. Takes half a minute.
"""

import re
from collections import defaultdict
from collections.abc import Callable
from csv import DictReader

import numpy as np
import pandas as pd

from nodewise.core.progress import progress
from nodewise.predict.published_curves import PUBLISHED, Scaling, read_published, scaling_of
from nodewise.predict.similar_curves import SimilarCurves, Target
from nodewise.results.importers import import_curves

DRAWS, SEED = 2000, 1
BEST_RULE = "last slope"
_ETHERNET = re.compile("ethernet|gbe|roce", re.IGNORECASE)


def _slope(curve: Scaling) -> float:
    logs = np.log2(curve.devices)
    return float((curve.efficiency[-1] - curve.efficiency[-2]) / (logs[-1] - logs[-2]))


def _line(curve: Scaling, devices: float) -> float:
    times = np.exp(curve.efficiency[-1] - curve.efficiency)
    slope, fixed = np.polyfit(curve.devices, times, 1)
    time = fixed + slope * devices
    return float(curve.efficiency[-1] - (np.log(time) if time > 0 else 0.0))


def _power(curve: Scaling, devices: float) -> float:
    line = np.polyfit(np.log(curve.devices), curve.efficiency, 1)
    return float(np.polyval(line, np.log(devices)))


RULES: dict[str, Callable[[Scaling, float], float]] = {
    "same efficiency": lambda curve, n: float(curve.efficiency[-1]),
    "last slope": lambda c, n: c.efficiency[-1] + _slope(c) * np.log2(n / c.devices[-1]),
    "half the last slope": lambda c, n: (
        c.efficiency[-1] + _slope(c) * np.log2(n / c.devices[-1]) / 2
    ),
    "power law": _power,
    "straight line of time": _line,
}


def groups_of(curve: Scaling, about: dict[str, str]) -> list[str]:
    """Return the groups that a curve is in."""
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
    """Return a row per curve: the log errors of ours and of the rules, and our interval."""
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        about = {row["curve"]: row for row in DictReader(file)}
    curves = {
        c.name: s for c in import_curves(PUBLISHED).curves if (s := scaling_of(c)) is not None
    }
    names = defaultdict(list)
    for name, curve in curves.items():
        names[curve.publisher].append(name)
    rows = []
    with progress("published curves", len(curves)) as advance:
        for publisher, mine in names.items():
            seen = [curves[name].part(0, len(curves[name]) - 1) for name in mine]
            others = [curve for curve in read_published() if curve.publisher != publisher]
            similar = SimilarCurves([*others, *seen])
            for name, known in zip(mine, seen, strict=True):
                devices, truth, hosts, batch = (
                    values[-1]
                    for values in (
                        curves[name].devices,
                        curves[name].efficiency,
                        curves[name].hosts,
                        curves[name].batch,
                    )
                )
                value, low, high = similar.predict(known, Target(devices, hosts, batch))
                rows.append(
                    {
                        "curve": name,
                        "publisher": publisher,
                        "groups": groups_of(curves[name], about[name]),
                        "ours": value - truth,
                        "covered": low <= truth <= high,
                        "width": high - low,
                    }
                    | {rule: predict(known, devices) - truth for rule, predict in RULES.items()}
                )
            advance(len(mine))
    return pd.DataFrame(rows)


def levels(rows: pd.DataFrame) -> pd.DataFrame:
    """Return errors in %, of curves and weighted by publisher, and widths at 90 % coverage."""
    share = 1 / rows.groupby("publisher")["curve"].transform("size")
    found = {}
    for name in ("ours", *RULES):
        size = rows[name].abs()
        wrong = 100 * np.expm1(rows[name]).abs()
        order = np.argsort(wrong.to_numpy())
        at = np.searchsorted(share.iloc[order].cumsum(), share.sum() / 2)
        found[name] = {
            "median": wrong.median(),
            "mean of log": 100 * size.mean(),
            "p90": wrong.quantile(0.9),
            "publishers, median": wrong.iloc[order[at]],
            "publishers, mean of log": 100 * float(np.average(size, weights=share)),
            "width": rows["width"].mean() if name == "ours" else 2 * size.quantile(0.9),
        }
    return pd.DataFrame(found).T


def bootstrap(rows: pd.DataFrame, rule: str) -> dict[str, float]:
    """Return in how many draws of publishers we are better than a rule, and the 90 % range.

    The mean of the absolute log errors is compared; `low` and `high` are of rule minus ours.
    """
    by = [rows[rows["publisher"] == publisher] for publisher in rows["publisher"].unique()]
    gain = np.array([(each[rule].abs() - each["ours"].abs()).sum() for each in by])
    size = np.array([len(each) for each in by])
    draws = np.random.default_rng(SEED).integers(len(by), size=(DRAWS, len(by)))
    gains = 100 * gain[draws].sum(axis=1) / size[draws].sum(axis=1)
    low, high = np.quantile(gains, [0.05, 0.95])
    return {"better": float((gains > 0).mean()), "low": float(low), "high": float(high)}


def main() -> None:
    rows = predict_all()
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

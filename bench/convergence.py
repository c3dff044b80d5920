"""Judge the law of the examples to a target on published points that it was not fitted to.

First, each reference point is left out and predicted from the others of its benchmark: from both
sides, or the largest batch from the smaller ones. Then, of each family of whole submissions, the
smallest gives the level and the law of its benchmark predicts the examples of the larger ones.
MLPerf's rules forbid a submission to converge faster than the reference points, so part of this
agreement is enforced. Last, the minutes of data-parallel submissions are predicted by that law and
by `nodewise forecast`, from the smallest; there, "constant" is perfect scaling with as many
examples. An interval of points left out is that of the median of their runs.

`--write` also writes `data/published/convergence/judged.csv`, which the site shows.

python bench/convergence.py [--write]
"""

import argparse
import re
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from nodewise.predict.fit import DRAWS, interval_of
from nodewise.predict.question_files import Case
from nodewise.predict.steps_to_accuracy import fit_counted, published_laws, reference_runs
from nodewise.results import published, studies

JUDGED = studies.FOLDER / "convergence/judged.csv"
PLACES = {
    "between": "between other batches",
    "largest": "the largest batch",
    "smallest": "the smallest batch",
}
DATA_PARALLEL = (
    *("bert", "flux1", "maskrcnn", "resnet", "retinanet"),
    *("rnnt", "ssd_resnet34", "stable_diffusion", "unet3d"),
)
WITHIN = {"V100": "nvlink2", "A100": "nvlink3", "H100": "nvlink4", "H200": "nvlink4"}
WITHIN |= {"B200": "nvlink5", "Blackwell": "nvlink5", "L40S": "pcie4"}
# Devices that NVLink connects, where these are more than those of a node: racks of 18 nodes.
RACKS = {"GB200": 72, "GB300": 72}
_CARDS = (  # `8x ConnectX-6 IB HDR 200Gb/Sec`, and `InfiniBand 100 Gb/sec (4X EDR) 10x Mellanox`
    re.compile(r"(?P<count>\d+) ?x(?! ?Ethernet)[^,;|]*?(?P<gbit>\d{3}) ?G"),
    re.compile(r"(?P<gbit>\d{3}) ?Gb/s[^,;|]*?(?P<count>\d+)x(?! ?Ethernet)"),
)
_MEDIAN = 1.2533  # standard error of a median relative to that of a mean


def points_left_out() -> Iterator[dict[str, Any]]:
    """Yield the prediction of each reference point without its runs."""
    for name, runs in reference_runs().groupby("benchmark"):
        batches = np.unique(runs["global_batch"])
        for i, batch in enumerate(batches if len(batches) > 2 else ()):
            out = runs["global_batch"] == batch
            rest, mine = runs[~out], runs.loc[out, "examples"]
            law = fit_counted(rest["global_batch"], rest["examples"])
            near = batches[batches != batch][
                np.argmin(np.abs(np.log(batches[batches != batch] / batch)))
            ]
            edge = "smallest" if i == 0 else "largest" if i == len(batches) - 1 else "between"
            spread = _MEDIAN * np.log(mine).std() / np.sqrt(len(mine)) if len(mine) > 1 else 0.0
            found = law.examples([batch], DRAWS)[:, 0]
            yield {
                "judged": PLACES[edge],
                "benchmark": name,
                "measured": mine.median(),
                "predicted": found[0],
                "constant": rest.loc[rest["global_batch"] == near, "examples"].median(),
                **ends(found, spread),
            }


def submissions() -> Iterator[dict[str, Any]]:
    """Yield the prediction of each submission from the smallest one of its family."""
    laws, runs = published_laws(), reference_runs()
    spread = {name: _scatter(rows) for name, rows in runs.groupby("benchmark")}
    for _, rows in published.read("convergence/submissions").groupby("family"):
        first, larger = _smallest_and_larger(rows)
        name = first["converges_like"]
        law = laws[name].at_level_of([first["global_batch"]], [first["samples_to_target"]])
        for one in larger:
            batch = one["global_batch"]
            runs_of = np.sqrt(1 / first["runs"] + 1 / one["runs"])
            found = law.examples([batch], DRAWS)[:, 0]
            yield {
                "judged": "larger submissions",
                "benchmark": name,
                "grows": batch / first["global_batch"],
                "measured": one["samples_to_target"],
                "predicted": found[0],
                "constant": first["samples_to_target"],
                **ends(found, _MEDIAN * spread[name] * runs_of),
            }


def minutes() -> Iterator[dict[str, Any]]:
    """Yield the minutes of each data-parallel submission from the smallest one of its family.

    The throughput is that of the whole run, so start-up and evaluation are taken to shrink as
    training does.
    """
    table = published.read("convergence/submissions")
    parameters = reference_runs().groupby("benchmark")["parameters"].first()
    table = table[table["converges_like"].isin(DATA_PARALLEL)]
    racks = pd.Series(_by_name(table["accelerator"], RACKS), table.index)
    table = table.assign(
        within=_by_name(table["accelerator"], WITHIN),
        connected=racks.fillna(table["accelerators_per_node"]).astype(int),
        between=table["link_between"].map(_gbit),
    ).dropna(subset=["within"])
    for _, rows in table.groupby("family"):
        first, larger = _smallest_and_larger(rows)
        for one in larger:
            case = Case(
                parameters=parameters[one["converges_like"]],
                precision="bf16",
                devices_per_node=one["connected"],
                within_kind=one["within"],
                between_gbit=one["between"] * one["connected"] / one["accelerators_per_node"],
                transport="rdma",
                baseline_devices=first["accelerators"],
                throughput_samples_per_s=first["samples_to_target"] / first["minutes"] / 60,
                n_devices=one["accelerators"],
                converges_like=one["converges_like"],
                samples_to_target=first["samples_to_target"],
                global_batch=first["global_batch"],
                global_batch_asked=one["global_batch"],
            )
            found = case.answer()
            yield {
                "judged": "minutes of larger submissions",
                "benchmark": one["converges_like"],
                "measured": one["minutes"],
                "predicted": found["minutes"],
                "constant": first["minutes"] * first["accelerators"] / one["accelerators"],
                "low": found["minutes_low"],
                "high": found["minutes_high"],
            }


def _smallest_and_larger(
    rows: pd.DataFrame,
) -> tuple[dict[Hashable, Any], list[dict[Hashable, Any]]]:
    """Return the smallest submission of a family, and those with more accelerators."""
    first, *others = rows.sort_values(["accelerators", "global_batch"]).to_dict("records")
    return first, [one for one in others if one["accelerators"] > first["accelerators"]]


def _by_name(names: pd.Series, values: Mapping[str, Any]) -> list[Any]:
    """Return the value of the first key that is in each name; None if none is."""
    return [next((values[key] for key in values if key in name), None) for name in names]


def _gbit(text: str) -> float:
    """Return the Gbit/s of a node's links in a submitter's words; default: eight cards of 200."""
    compute = str(text).split("Compute:")[-1]
    cards = next(filter(None, (way.search(compute) for way in _CARDS)), None)
    return int(cards["count"]) * float(cards["gbit"]) if cards else 1600.0


def _scatter(runs: pd.DataFrame) -> float:
    """Return the relative scatter of the runs of a benchmark around the mean of their batch."""
    logs = np.log(runs["examples"])
    return float(np.sqrt(logs.groupby(runs["global_batch"]).var().mean()))


def ends(drawn: np.ndarray, spread: float) -> dict[str, float]:
    """Return the 90 % interval of draws (see `interval_of`), off by a further `spread`."""
    off = np.append(0, np.random.default_rng(1).standard_normal(len(drawn) - 1))
    low, high = interval_of(drawn * np.exp(spread * off))
    return {"low": float(low), "high": float(high)}


def summary(rows: pd.DataFrame) -> dict[str, Any]:
    """Return median and 90th percentile of the errors, and how often intervals hold."""
    wrong, constant = (
        pd.Series(np.expm1(np.abs(np.log(rows[name] / rows["measured"]))))
        for name in ("predicted", "constant")
    )
    return {
        "points": len(rows),
        "median": wrong.median(),
        "p90": wrong.quantile(0.9),
        "constant_median": constant.median(),
        "constant_p90": constant.quantile(0.9),
        "covered": rows["measured"].between(rows["low"], rows["high"]).mean(),
        "width": float(((rows["high"] / rows["low"]) ** 0.5).median() - 1),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="bench/convergence.py", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--write", action="store_true", help=f"also write {JUDGED.name}")
    arguments = parser.parse_args()
    rows = pd.DataFrame([*points_left_out(), *submissions(), *minutes()])
    parts = dict(iter(rows.groupby("judged", sort=False)))
    parts["larger submissions, batch at least doubled"] = rows[rows["grows"] >= 2]
    table = pd.DataFrame([{"judged": name} | summary(part) for name, part in parts.items()])
    print(table.round(3).to_string(index=False))
    if arguments.write:
        table.round(4).to_csv(JUDGED, index=False)


if __name__ == "__main__":
    main()

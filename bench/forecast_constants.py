"""Learn the constants of real clusters from published cases, with and without each publisher.

Prints, as the YAML of `predict/cluster_constants.yaml`, the distribution of each constant over
clusters. It is learned by expectation and maximisation over draws: each case weights the draws of
its constants by how well they meet its points; the weighted draws of all cases give the next mean
and deviation. The priors, those of links from isolated all-reduces, count like one case. A case
counts 1/√(cases of its publisher).

python bench/forecast_constants.py
"""

import argparse
import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from nodewise.predict.cluster_links import MESSAGE_BYTES, constants, link_name
from nodewise.predict.cluster_steps import Draws, Topology, Training, draw_weights
from nodewise.predict.question_files import Case as CaseRow
from nodewise.results import published

ALL_REDUCES = Path("data/published/forecast/all_reduces.csv")
IN_TRAINING = 0.7
"""Share of the bandwidth of isolated all-reduces that training achieves, as a prior."""
_LEAST_DEVIATION = 0.4  # few sources agree by chance
_SMALL_BYTES = 65_536  # smaller messages take as long
LINKS = ("nvlink", "bridge", "pcie", "no_p2p", "rdma", "rails", "tcp")
BETWEEN = ("rdma", "rails", "tcp")
WITHIN = ("contention_within", "contention_no_p2p")
WIDER, WIDER_LINKS = 1.1, 1.2
"""Factors on the deviations: with few publishers, the learned ones are too small. They are chosen
so that the intervals of publishers left out hold."""
ROUNDS = 5


def all_reduces() -> pd.DataFrame:
    """Return one row per source and family of links of the table of isolated all-reduces.

    Columns: `GB_per_s` and the `share` of the nominal rate at messages of MESSAGE_BYTES, NaN if
    there were only small ones; and `latency_s` of the smallest messages, NaN if there were none.
    """
    table = pd.read_csv(ALL_REDUCES).dropna(subset="family")
    what = ["family", "source", "nominal_GB_s", "device", "nics_per_node", "n_devices"]
    rows = []
    for (family, source, nominal, *_), runs in table.groupby(what, dropna=False):
        rates = runs[runs["busbw_GB_s"] > 0].groupby("message_bytes")["busbw_GB_s"].median()
        large = not rates.empty and rates.index[-1] >= MESSAGE_BYTES / 8
        logs = (
            np.interp(np.log(MESSAGE_BYTES), np.log(rates.index), np.log(rates))
            if large
            else np.nan
        )
        small = runs.loc[runs["message_bytes"] <= _SMALL_BYTES, "time_us"].min()
        rate = np.exp(logs)
        rows.append([family, source, rate, rate / nominal, 1e-6 * small])
    found = pd.DataFrame(rows, columns=["family", "source", "GB_per_s", "share", "latency_s"])
    return found.groupby(["family", "source"], as_index=False).median()


def priors() -> dict[str, tuple[float, float]]:
    """Return the mean and deviation of each constant over clusters before cases are seen.

    Those of links come from isolated all-reduces.
    """
    table = all_reduces().set_index("family")
    logs = pd.DataFrame(np.log(table[["GB_per_s", "share", "latency_s"]]))
    between = table.index.isin(BETWEEN)
    of_links = {
        name: _normal(logs.loc[rows, "latency_s"])
        for name, rows in (("latency_within", ~between), ("latency_between", between))
    }
    for name in LINKS:
        family = {"bridge": "pcie"}.get(name, name)  # no all-reduce over a bridge was published
        mean, deviation = _normal(logs.loc[[family], "GB_per_s" if name == "tcp" else "share"])
        of_links[name] = (mean + np.log(IN_TRAINING), deviation)
    return of_links | {
        "hidden": (-0.5, 1.0),
        "devices_differ": (np.log(0.012), 1.2),
        "nodes_differ": (np.log(0.012), 1.2),
        "contention_within": (0.2, 0.3),
        "contention_between": (0.1, 0.15),
        # 0 if each device has a way of its own to the host's memory, 1 if all share one
        "contention_no_p2p": (0.5, 0.5),
    }


def _normal(values: pd.Series) -> tuple[float, float]:
    return float(values.mean()), max(float(values.std()), _LEAST_DEVIATION)


PRIORS = priors()


class Case(NamedTuple):
    """A published case: the given number of devices with its throughput, and the other points."""

    name: str
    publisher: str
    cluster: Topology
    training: Training
    given: tuple[int, float]
    others: tuple[tuple[int, float], ...]
    within: str
    between: str

    def kind_of(self, devices: int) -> str:
        """Return the kind of the slowest link between so many devices."""
        return self.within if devices <= self.cluster.devices_per_node else self.between


def cases() -> Iterator[Case]:
    """Yield the cases of all-reduces that have a given point and others.

    Those over links that are not all known are learned from, but not judged.
    """
    unknown = {"within_kind": "unknown", "transport": "", "parameters": 0}
    table = published.published_cases().fillna(unknown)
    run = (table["n_devices"] == table["baseline_devices"]).cumsum()  # a case may have several runs
    for _, points in table.groupby(["case", run], sort=False):
        row = points.iloc[0].to_dict()
        per_node = int(row["devices_per_node"])
        measured = zip(points["n_devices"], points["throughput_samples_per_s"], strict=True)
        pairs = [(int(n), float(value)) for n, value in measured]
        first = int(row["baseline_devices"])
        given = next((pair for pair in pairs if pair[0] == first), None)
        most = np.inf if row["between_gbit"] > 0 else per_node
        others = tuple((n, value) for n, value in pairs if n != first and n <= most)
        usable = row["exchange"] in ("ring", "nccl", "mpi") and row["parameters"]
        if usable and given and others:
            rate = f"{row['between_gbit']:g}gbit"
            between = f"{rate}-{row['transport']}".removesuffix("-")
            cluster, training = CaseRow.model_validate(row).setup()
            within = link_name(row["within_kind"])
            about = row["case"], row["publisher"]
            yield Case(*about, cluster, training, given, others, within, between)


def learn(found: list[Case]) -> dict[str, Any]:
    """Return the constants learned from cases."""
    known = copy.deepcopy(dict(constants()))
    known["clusters"] |= PRIORS
    for _ in range(ROUNDS):
        known["clusters"] |= _next(found, known)
    for name in PRIORS:
        mean, deviation = known["clusters"][name]
        known["clusters"][name] = (mean, deviation * (WIDER_LINKS if name in LINKS else WIDER))
    return known


def _next(found: list[Case], known: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Return the means and deviations of the draws that meet the cases under these constants."""
    sums = {
        name: [np.array([1.0, mean, mean**2 + deviation**2])]
        for name, (mean, deviation) in PRIORS.items()
    }
    counts = pd.Series([case.publisher for case in found]).value_counts()
    for case in found:
        draws = Draws(case.cluster, case.training, known)
        weights = _weights(draws, case) / np.sqrt(counts[case.publisher])
        for name in _involved(case, draws):
            value = draws.constants[name]
            sums[name].append(np.array([weights.sum(), weights @ value, weights @ value**2]))
    new = {}
    for name, parts in sums.items():
        total, first, second = np.sum(parts, axis=0)
        new[name] = (first / total, np.sqrt(max(second / total - (first / total) ** 2, 1e-4)))
    return new


def _weights(draws: Draws, case: Case) -> np.ndarray:
    """Return how well each draw meets a case; the sum is 1."""
    counts, values = np.array(case.others).T
    logs = draws.log_rates(counts.tolist(), [1.0] * len(counts))
    misses = logs.T - np.log(values)[:, None]
    return draw_weights(misses, least=1.0)


def _involved(case: Case, draws: Draws) -> Iterator[str]:
    """Yield the constants on which the points of a case depend.

    Those that depend on the kind of a link are left out where it is unknown, and what TCP achieves
    where RDMA is used, whose least it is.
    """
    most = max(n for n, _ in (case.given, *case.others))
    inside, many = (
        min(most, case.cluster.devices_per_node) > 1,
        most > case.cluster.devices_per_node,
    )
    levels = (case.cluster.within, WITHIN), (case.cluster.between, ("contention_between",))
    unknown = [(link, contention) for link, contention in levels if link and len(link) > 1]
    of_unknown = {name for link, contention in unknown for name in (*link, *contention)}
    of_others = {"tcp"} - (case.cluster.between or {}).keys()
    for name in draws.constants.keys() - of_unknown - of_others:
        within = name in (*WITHIN, "devices_differ", "latency_within")
        across = name in ("nodes_differ", "contention_between", "latency_between", *BETWEEN)
        if name in PRIORS and (inside or not within) and (many or not across):
            yield name


if __name__ == "__main__":
    argparse.ArgumentParser(prog="bench/forecast_constants.py", description=__doc__).parse_args()
    for name, (mean, deviation) in learn(list(cases()))["clusters"].items():
        print(f"  {name}: [{mean:.2f}, {deviation:.2f}]")

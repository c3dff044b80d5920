"""Evaluate a calibration: the share of a core, the rate of links, and the law of all-reduces.

Times are in the node's own time (wall time × share), except round trips, which are in wall time.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import sympy

from nodewise.core.intervals import median_error, pooled_factors
from nodewise.predict.fit import Fit, fit, interval_of
from nodewise.predict.law import LINK, Law, Parameter, S, alpha, beta, n, positive
from nodewise.predict.laws.collectives import RingAllReduce
from nodewise.predict.points import Points
from nodewise.results.calibration import Calibration, Collective

SHARE_WITHIN = 0.03


class ConsecutiveAllReduces(Law):
    """T = max(s + 2(n−1)·α, 2(n−1)/n·S·β): the time of one of many all-reduces in a row.

    Software processes one piece of the payload while another is on the link, so the time is the
    longer of the two, not their sum. The law counts the 2(n−1) messages of `RingAllReduce`, and one
    call of the software. An exchange in which each node sends to each other one twice has as many
    messages.
    """

    name = "all_reduces"
    title = "Consecutive all-reduces"
    source = RingAllReduce.source
    parameters = (Parameter("s", "software_s", "s", "link", "a call of the software"), *LINK)
    step = sympy.Max(positive("s") + 2 * (n - 1) * alpha, 2 * S * beta * (n - 1) / n)


_STARTS = (0.5, 3.0)  # a fast link begins below the software's time, and would not be seen
_LINK = ("configured_bit_s", "expected_bit_s", "achieved_bit_s", "round_trip_s")


@dataclass(frozen=True)
class AllReduces:
    """The all-reduces of one collective.

    Attributes:
        fitted: the law, fitted to the median of the launches of each number of nodes and payload.
        times: these medians (role `observed`) and the law's times (role `fitted`).
    """

    fitted: Fit
    times: pd.DataFrame

    @property
    def own_time(self) -> dict[str, float]:
        """The software time and latency in s, and the bandwidth in B/s, with 90 % intervals.

        The ends of the interval of `latency_s` are `latency_s_low` and `latency_s_high`.
        """
        found: dict[str, float] = {}
        for name, label in self.fitted.coefficients:
            found[name] = self.fitted.value(name, label)
            found[f"{name}_low"], found[f"{name}_high"] = self.fitted.interval(name, label)
        inverse = {"": "", "_low": "_high", "_high": "_low"}
        for end, of in inverse.items():
            per_byte = found.pop(f"seconds_per_byte{of}")
            found[f"bandwidth_bytes_per_s{end}"] = 1 / per_byte if per_byte > 0 else np.nan
        return found


@dataclass(frozen=True)
class Findings:
    """The results of a calibration as tables.

    Attributes:
        shares: by number of nodes, the share of a core that busy workers got in all launches.
        links: by launch, the rate of a stream, the configured rate, and that rate without headers.
            Networks of real hosts have no configured rate; what depends on it is NaN.
        streams: streams between two hosts, the slowest first.
        all_reduces: the all-reduces of each measured collective, if a launch had two nodes.
    """

    shares: pd.DataFrame
    links: pd.DataFrame
    streams: pd.DataFrame
    all_reduces: dict[Collective, AllReduces]


def examine(calibration: Calibration) -> Findings:
    """Return the tables of a calibration whose status is ok. The result is deterministic."""
    launches, share = calibration.launches, calibration.cluster.share
    busy = pd.DataFrame(
        [(one.nodes, i, worker.share) for i, one in enumerate(launches) for worker in one.busy],
        columns=["nodes", "launch", "share"],
    )
    shares = busy.groupby("nodes", as_index=False).agg(
        launches=("launch", "nunique"),
        share=("share", "median"),
        lowest=("share", "min"),
        highest=("share", "max"),
    )
    ends = shares[["lowest", "highest"]] / share - 1
    shares["error"] = ends["lowest"].where(-ends["lowest"] > ends["highest"], ends["highest"])
    configured = calibration.cluster.link_bit_s
    transfers = [
        {
            "launch": number,
            "configured_bit_s": configured if np.isfinite(configured) else np.nan,
            "achieved_bit_s": one.transfer.bits_per_s,
            "expected_bit_s": configured * one.transfer.payload_share,
            "round_trip_s": one.transfer.round_trip_s,
        }
        for number, one in enumerate(launches, 1)
        if one.transfer is not None
    ]
    links = pd.DataFrame(transfers, columns=["launch", *_LINK])
    links["expected_bit_s"] = links["expected_bit_s"].where(links["configured_bit_s"].notna())
    links["error"] = links["achieved_bit_s"] / links["expected_bit_s"] - 1
    streams = [(*one.ends, one.bits_per_s, one.round_trip_s) for one in calibration.streams]
    columns = ["sender", "receiver", "achieved_bit_s", "round_trip_s"]
    measured: dict[Collective, list[tuple[int, int, float]]] = {}
    for one in launches:
        for block in one.all_reduces:
            row = one.nodes, block.payload_bytes, share * block.seconds_each
            measured.setdefault(block.collective, []).append(row)
    return Findings(
        shares=shares,
        links=links,
        streams=pd.DataFrame(streams, columns=columns).sort_values("achieved_bit_s", kind="stable"),
        all_reduces={name: _all_reduces(rows) for name, rows in measured.items()},
    )


def _all_reduces(rows: list[tuple[int, int, float]]) -> AllReduces:
    """Fit the law to nodes, payload and seconds of all-reduces."""
    axes = ["nodes", "payload_bytes"]
    launches = pd.DataFrame(rows, columns=[*axes, "own"]).groupby(axes)["own"]
    observed = launches.agg(seconds="median", launches="size").reset_index()
    spread = launches.apply(lambda own: np.log(own).std(ddof=1)).to_numpy()
    noise = spread * [median_error(count) for count in observed["launches"]]
    at = observed["nodes"], 0, observed["payload_bytes"], observed["seconds"]
    measured = Points.of(*at, noise=noise)
    fitted = fit(ConsecutiveAllReduces(), measured, starts=_STARTS)
    factors = pooled_factors([own.to_numpy() for _, own in launches])
    observed["low"], observed["high"] = (
        observed["seconds"] / factors,
        observed["seconds"] * factors,
    )
    law = observed[axes].assign(seconds=fitted.evaluate(measured))
    law["low"], law["high"] = interval_of(fitted.draw(measured))
    roles = [observed.assign(role="observed"), law.assign(role="fitted", launches=None)]
    return AllReduces(fitted, pd.concat(roles).astype({"launches": "Int64"}))

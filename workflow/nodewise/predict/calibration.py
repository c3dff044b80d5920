"""Evaluate a calibration: the share of a core, the rate of links, and the law of all-reduces.

Times are in the node's own time (wall time × share), except round trips, which are in wall time.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import sympy

from nodewise.core.intervals import median_error, pooled_factors
from nodewise.predict.fit import Fit, fit, interval_of
from nodewise.predict.law import Law, Parameter, S, n, positive
from nodewise.predict.laws.ring import RingAllReduce
from nodewise.predict.parts_law import LINK, alpha, beta
from nodewise.predict.points import Points
from nodewise.results.calibration import AllReduce, Calibration, Collective
from nodewise.results.table_files import typed

SHARE_WITHIN = 0.03
SHARES = {
    "nodes": "int64",
    "launches": "int64",
    "share": "float64",
    "lowest": "float64",
    "highest": "float64",
    "error": "float64",
}
LINKS = {
    "launch": "int64",
    "configured_bit_s": "float64",
    "expected_bit_s": "float64",
    "achieved_bit_s": "float64",
    "error": "float64",
    "round_trip_s": "float64",
}
STREAMS = {
    "sender": "str",
    "receiver": "str",
    "achieved_bit_s": "float64",
    "round_trip_s": "float64",
}
TIMES = {
    "role": "str",
    "nodes": "int64",
    "payload_bytes": "int64",
    "launches": "Int64",
    "seconds": "float64",
    "low": "float64",
    "high": "float64",
}


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
    """The results of a calibration as tables. Their columns are declared above.

    `all_reduces` has an entry for each measured collective. It is empty if no launch had two nodes.
    """

    shares: pd.DataFrame
    links: pd.DataFrame
    streams: pd.DataFrame
    all_reduces: dict[Collective, AllReduces]


def examine(calibration: Calibration) -> Findings:
    """Return the tables of a calibration whose status is ok. The result is deterministic."""
    measured: dict[Collective, list[tuple[int, AllReduce]]] = {}
    for launch in calibration.launches:
        for block in launch.all_reduces:
            measured.setdefault(block.collective, []).append((launch.nodes, block))
    share = calibration.cluster.share
    return Findings(
        shares=_shares(calibration),
        links=_links(calibration),
        streams=_streams(calibration),
        all_reduces={name: _all_reduces(blocks, share) for name, blocks in measured.items()},
    )


def _shares(calibration: Calibration) -> pd.DataFrame:
    """Return one row per node count: the share of a core that busy workers got in all launches."""
    seen: dict[int, list[list[float]]] = {}
    for launch in calibration.launches:
        seen.setdefault(launch.nodes, []).append([busy.share for busy in launch.busy])
    rows = []
    for nodes, launches in sorted(seen.items()):
        shares = np.concatenate(launches)
        rows.append(
            {
                "nodes": nodes,
                "launches": len(launches),
                "share": np.median(shares),
                "lowest": shares.min(),
                "highest": shares.max(),
                "error": max(shares / calibration.cluster.share - 1, key=abs),
            }
        )
    return typed(rows, SHARES)


def _links(calibration: Calibration) -> pd.DataFrame:
    """Return one row per stream: achieved rate, configured rate, and that rate without headers.

    Networks of real hosts have no configured rate; all columns that depend on it are then NaN.
    """
    rate = calibration.cluster.link_bit_s
    configured = rate if np.isfinite(rate) else np.nan
    rows = []
    for number, launch in enumerate(calibration.launches, 1):
        if (transfer := launch.transfer) is not None:
            expected = configured * transfer.payload_share
            rows.append(
                {
                    "launch": number,
                    "configured_bit_s": configured,
                    "expected_bit_s": expected,
                    "achieved_bit_s": transfer.bits_per_s,
                    "error": transfer.bits_per_s / expected - 1,
                    "round_trip_s": transfer.round_trip_s,
                }
            )
    return typed(rows, LINKS)


def _streams(calibration: Calibration) -> pd.DataFrame:
    """Return one row per stream between two hosts, the slowest first."""
    rows = [
        {
            "sender": stream.ends[0],
            "receiver": stream.ends[1],
            "achieved_bit_s": stream.bits_per_s,
            "round_trip_s": stream.round_trip_s,
        }
        for stream in sorted(calibration.streams, key=lambda one: one.bits_per_s)
    ]
    return typed(rows, STREAMS)


def _all_reduces(blocks: list[tuple[int, AllReduce]], share: float) -> AllReduces:
    """Fit the law to blocks of all-reduces, each with its number of nodes."""
    rows = [
        {"nodes": nodes, "payload_bytes": block.payload_bytes, "own": share * block.seconds_each}
        for nodes, block in blocks
    ]
    launches = pd.DataFrame(rows).groupby(["nodes", "payload_bytes"])["own"]
    points = launches.agg(seconds="median", launches="size").reset_index()
    spread = launches.apply(lambda own: np.log(own).std(ddof=1)).to_numpy()
    noise = spread * [median_error(count) for count in points["launches"]]
    at = points["nodes"], 0, points["payload_bytes"]
    measured = Points.of(*at, points["seconds"], noise=noise)
    fitted = fit(ConsecutiveAllReduces(), measured)
    factors = pooled_factors([own.to_numpy() for _, own in launches])
    observed = points.assign(low=points["seconds"] / factors, high=points["seconds"] * factors)
    law = observed[["nodes", "payload_bytes"]].assign(seconds=fitted.evaluate(measured))
    law["low"], law["high"] = interval_of(fitted.draw(measured))
    return AllReduces(
        fitted,
        typed(
            pd.concat([observed.assign(role="observed"), law.assign(role="fitted", launches=None)]),
            TIMES,
        ),
    )

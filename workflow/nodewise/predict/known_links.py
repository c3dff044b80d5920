"""What is known of a link before any step is fitted: by its settings, and by a calibration.

Rates and times are in the node's own time, wall time × share: a link of 100 Mbit/s counts as 500
Mbit/s for a node whose time passes five times slower.
"""

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd
import sympy

from nodewise.core.cell import MOST_PER_MACHINE
from nodewise.core.intervals import median_error
from nodewise.predict.fit import CoefficientKey, Fit, Prior, fit
from nodewise.predict.law import LINK, Law, Parameter, S, alpha, beta, n, positive
from nodewise.predict.laws.collectives import RingAllReduce
from nodewise.predict.points import Points
from nodewise.results.calibration import Calibration

PAYLOAD_SHARE = 1448 / 1514
"""The share of payload in a full Ethernet frame; the rest are Ethernet, IP and TCP headers."""
_MESSAGE_S = 6e-4  # software of a message, at most: calibrations found 0.3 to 0.6 ms
_EXCHANGE_SHARE = 0.93  # of the payload rate, by TensorFlow's ring all-reduce in calibrations
_BURSTS = 1.03  # how far an emulated link exceeds its rate at most: short bursts pass
_KNOWN_WITHIN = 0.1  # relative standard deviation of a bandwidth that is known beforehand
_NOTHING_S = 1e-9  # seconds per example: shorter than a clock can measure

Rates = Mapping[tuple[str, str], float]
"""Rates of payload in bit/s, by label of the cluster and machine."""


def calibrated_rates(calibrations: Iterable[Calibration]) -> Rates:
    """Return the rate of the links in each calibration; infinite if no stream was measured.

    Emulated links are alike, so it is the median of their streams. A ring over hosts is as fast as
    the slowest link. A calibration also holds for clusters with several workers per machine: they
    share its link.
    """
    rates = {}
    for one in calibrations:
        transfers = [launch.transfer.bits_per_s for launch in one.launches if launch.transfer]
        of_hosts = [stream.bits_per_s for stream in one.streams]
        rate = min([float(np.median(transfers or np.inf)), *of_hosts])
        for workers in range(1, MOST_PER_MACHINE + 1):
            cluster = one.cluster.with_per_machine(workers).label
            rates[cluster, one.provenance.cpu] = rate
    return rates


def known_of(rows: pd.DataFrame, link: str, calibrated: Rates) -> dict[CoefficientKey, Prior]:
    """Return what is known of the latency and bandwidth of a link, and of the input of its curves.

    No bandwidth exceeds the rate of an emulated link, and its latency is the configured one plus
    the software of a message. The bandwidth of a link without a configured rate is that of its
    calibration. Bandwidth is taken as known within a tenth. Reading examples of other nodes takes
    no time if the input is sharded. `rows` are those of curves over the link, in the table of
    points.
    """
    first = rows.iloc[0]
    share, rate_bit_s = first["cpu_share"], 1e6 * first["rate_mbit"] / first["cpu_share"]
    priors = {
        ("input_per_example_s", curve): Prior(0.0, _NOTHING_S)
        for curve in rows.loc[rows["pipeline"] == "sharded", "curve"]
    }
    per_byte, least = share * 8 / calibrated.get((first["cluster"], first["machine"]), np.inf), 0.0
    if np.isfinite(rate_bit_s):
        per_byte = 8 / (rate_bit_s * PAYLOAD_SHARE * _EXCHANGE_SHARE)
        least = 8 / (_BURSTS * rate_bit_s)
        priors["latency_s", link] = Prior(first["latency_ms"] / 1e3 * share, _MESSAGE_S)
        priors["inside_latency_s", link] = Prior(0.0, _MESSAGE_S)
    if per_byte > 0:
        priors["seconds_per_byte", link] = Prior(per_byte, per_byte * _KNOWN_WITHIN, least)
    return priors


class ConsecutiveAllReduces(Law):
    """T = max(s + 2(n−1)·α, 2(n−1)/n·S·β): the time of one of many all-reduces in a row.

    Software processes one piece of the payload while another is on the link, so the time is the
    longer of the two, not their sum. The law counts the 2(n−1) messages of `RingAllReduce`, and one
    call of the software.
    """

    name = "all_reduces"
    title = "Consecutive all-reduces"
    source = RingAllReduce.source
    parameters = (Parameter("s", "software_s", "s", "link", "a call of the software"), *LINK)
    compute = wait = input = sympy.S.Zero
    communicate = sympy.Max(positive("s") + 2 * (n - 1) * alpha, 2 * S * beta * (n - 1) / n)


def fit_rings(calibration: Calibration) -> tuple[pd.DataFrame, Fit] | None:
    """Fit the law to the all-reduces in a ring of a calibration; None if it has none.

    Returns:
        One row per `nodes` and `payload_bytes`: the median `seconds` of its launches and those of
        the law, `fitted`; and the fit.
    """
    rows = [
        (one.nodes, block.payload_bytes, calibration.cluster.share * block.seconds_each)
        for one in calibration.launches
        for block in one.all_reduces
        if block.collective == "ring"
    ]
    if not rows:
        return None
    axes = ["nodes", "payload_bytes"]
    launches = pd.DataFrame(rows, columns=[*axes, "own"]).groupby(axes)["own"]
    times = launches.agg(seconds="median", launches="size").reset_index()
    spread = launches.apply(lambda own: np.log(own).std(ddof=1)).to_numpy()
    noise = spread * median_error(times["launches"])
    points = Points.of(times["nodes"], 0, times["payload_bytes"], times["seconds"], noise=noise)
    law = fit(ConsecutiveAllReduces(), points, draws=0)
    return times.assign(fitted=law.draw(points)[0]), law

"""What is known of a link before any step is fitted: by its settings, and by a calibration.

Rates and times are in the node's own time, wall time × share: a link of 100 Mbit/s counts as 500
Mbit/s for a node whose time passes five times slower.
"""

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from nodewise.core.cell import MOST_PER_MACHINE
from nodewise.predict.fit import CoefficientKey, Prior
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

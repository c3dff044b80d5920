"""What is known of a link and of the input before any step is fitted, as priors of coefficients.

Rates and times are in the node's own time: a link of 100 Mbit/s counts as 500 Mbit/s for a node
whose time passes five times slower.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from nodewise.core.cell import MOST_PER_MACHINE
from nodewise.predict.calibration import Findings, examine
from nodewise.predict.curve_groups import CurveGroup
from nodewise.predict.fit import Coefficient, Fit, Prior
from nodewise.results.calibration import Calibration

PAYLOAD_SHARE = 1448 / 1514
"""The share of payload in a full Ethernet frame; the rest are Ethernet, IP and TCP headers."""
MESSAGE_S = 6e-4
"""Seconds of software per message, at most: calibrations found 0.3 to 0.6 ms."""
RING_SHARE = 0.93
"""The share of a link's payload rate that TensorFlow's ring all-reduce reaches in calibrations."""
BURSTS = 1.03
"""How much faster than its rate an emulated link is at most, because it lets short bursts pass."""
_LABEL = re.compile(
    r"(?P<share>[\d.]+) core(?: \(.*?\))?, (?P<mbit>[\d.]+) Mbit/s(?:, (?P<ms>[\d.]+) ms)?(?:, .*)?"
)
_KNOWN_WITHIN = 0.1  # relative standard deviation of a bandwidth that is known beforehand
_NOTHING_S = 1e-9  # seconds per example: shorter than a clock can measure
_TAILS_APART = 3.29  # width of a 90 % interval in standard deviations

Calibrated = Mapping[tuple[str, str], Findings]
"""The results of calibrations, by label of the cluster and machine."""


class ConfiguredLink(NamedTuple):
    """The link of an emulated cluster, in the node's own time.

    Attributes:
        rate_bit_s: its rate in bit/s.
        latency_s: its one-way latency in seconds.
    """

    rate_bit_s: float
    latency_s: float

    @property
    def seconds_per_byte(self) -> float:
        """Seconds per byte of payload, including headers of full frames."""
        return 8 / (self.rate_bit_s * PAYLOAD_SHARE)


def link_of(cluster: str) -> ConfiguredLink | None:
    """Return the link of a cluster from its label, or None if it is not an emulated cluster.

    Example:
        >>> link_of("0.2 core, 100 Mbit/s")
        ConfiguredLink(rate_bit_s=500000000.0, latency_s=0.0)
    """
    found = _LABEL.fullmatch(cluster)
    if found is None:
        return None
    share = float(found["share"])
    return ConfiguredLink(1e6 * float(found["mbit"]) / share, float(found["ms"] or 0) / 1e3 * share)


def calibrated_links(calibrations: Iterable[Calibration]) -> Calibrated:
    """Return the results of all calibrations whose status is ok.

    A calibration also holds for clusters with several workers per machine: they share its link.
    """
    found = {}
    for one in calibrations:
        if one.status == "ok":
            seen = examine(one)
            for workers in range(1, MOST_PER_MACHINE + 1):
                cluster = one.cluster.with_per_machine(workers)
                found[cluster.label, one.provenance.cpu] = seen
    return found


def link_priors(group: CurveGroup, calibrated: Calibrated) -> dict[Coefficient, Prior]:
    """Return what is known of the latency and bandwidth of a group's link, and of its input.

    No bandwidth exceeds the rate of an emulated link, and its latency is the configured one plus
    the software of a message. Laws of rings take both from TensorFlow's ring in a calibration, if
    there is one. Messages may hide behind bytes, so latency is expected below the calibrated one.
    Without a configured rate, bandwidth is that of the streams in a calibration of hosts. Bandwidth
    is taken as known within a tenth.

    Args:
        group: curves over one link.
        calibrated: results of calibrations, as from `calibrated_links`.
    """
    cluster, machine = group.first[["cluster", "machine"]]
    seen, configured = calibrated.get((cluster, machine)), link_of(cluster)
    latency, beta, least = None, np.nan, 0.0
    if configured is not None:
        latency = Prior(configured.latency_s, MESSAGE_S)
        beta = configured.seconds_per_byte / (
            RING_SHARE if group.law.link_known_by == "rings" else 1
        )
        least = 8 / (BURSTS * configured.rate_bit_s)
    elif seen is not None and group.law.link_known_by == "rate" and len(seen.links):
        beta = 8 / float(seen.links["achieved_bit_s"].median())
    if seen is not None and group.law.link_known_by == "rings" and "ring" in seen.all_reduces:
        own = seen.all_reduces["ring"].own_time
        latency = Prior(own["latency_s"] / 2, own["latency_s"] / 2)
        beta = 1 / own["bandwidth_bytes_per_s"]
    priors: dict[Coefficient, Prior] = {}
    if configured is not None:
        priors["inside_latency_s", group.link] = Prior(0.0, MESSAGE_S)
    if latency is not None and latency.spread > 0:  # false for NaN
        priors["latency_s", group.link] = latency
    if beta > 0:
        priors["seconds_per_byte", group.link] = Prior(beta, beta * _KNOWN_WITHIN, least)
    return priors | input_priors(group)


def input_priors(group: CurveGroup) -> dict[Coefficient, Prior]:
    """Return priors of curves with sharded input: reading examples of other nodes takes no time."""
    sharded = group.rows[group.rows["pipeline"] == "sharded"]
    return {
        ("input_per_example_s", curve): Prior(0.0, _NOTHING_S)
        for curve in sharded["curve"].unique()
    }


def learned_priors(
    group: CurveGroup, fitted: Fit, priors: Mapping[Coefficient, Prior]
) -> dict[Coefficient, Prior]:
    """Return α and β of a fit as priors for other fits over the same link, which had `priors`.

    Curves over one link are in different fits if the settings of their laws differ, such as the
    bytes of an activation. Latency and bandwidth of the link are still the same. They are taken as
    known within a tenth at best.
    """
    found: dict[Coefficient, Prior] = {}
    for name in ("latency_s", "seconds_per_byte"):
        value, (low, high) = fitted.value(name, group.link), fitted.interval(name, group.link)
        spread = float(np.hypot((high - low) / _TAILS_APART, _KNOWN_WITHIN * value))
        if spread > 0:  # false for NaN: no such coefficient, or no draws
            before = priors.get((name, group.link))
            found[name, group.link] = Prior(value, spread, before.least if before else 0.0)
    return found

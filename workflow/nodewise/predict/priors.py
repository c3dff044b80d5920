"""Priors on coefficients: from calibrations, configured link rates and other fits."""

from collections.abc import Iterable, Mapping

import numpy as np

from nodewise.core.cell import MOST_PER_MACHINE
from nodewise.predict.calibration import Findings, examine
from nodewise.predict.curve_groups import CurveGroup
from nodewise.predict.fit import Fit
from nodewise.predict.known_links import link_of
from nodewise.predict.least_squares import Coefficient, Priors
from nodewise.results.calibration import Calibration

Calibrated = Mapping[tuple[str, str], Findings]
"""The results of calibrations, by label of the cluster and machine."""

_NOTHING_S = 1e-9  # seconds per example: shorter than a clock can measure
_TAILS_APART = 3.29  # width of a 90 % interval in standard deviations


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


def link_priors(group: CurveGroup, calibrated: Calibrated) -> Priors:
    """Return priors on latency and bandwidth of a group's link, and on its input.

    Rings: the priors come from TensorFlow's ring all-reduce in a calibration. The all-reduce of a
    step differs a little from that of a calibration, so bandwidth is known within a tenth. Messages
    may hide behind bytes, so latency is expected between 0 and the calibrated value.

    Parameter servers and pipelines: the bandwidth prior is the configured rate less headers, or
    else the rate of the streams in a calibration of hosts, within a tenth. Measurements alone do
    not show it: few workers do not saturate the link of a server, and messages cross a link of a
    pipeline one at a time.

    Args:
        group: curves over one link.
        calibrated: results of calibrations, as from `calibrated_links`.
    """
    cluster, machine = group.first[["cluster", "machine"]]
    seen = calibrated.get((cluster, machine))
    alpha, beta = 0.0, 0.0
    if group.law.link_known_by == "rate":
        beta = _seconds_per_byte(cluster, seen)
    elif group.law.link_known_by == "rings" and seen is not None and "ring" in seen.all_reduces:
        own = seen.all_reduces["ring"].own_time
        alpha, beta = own["latency_s"], 1 / own["bandwidth_bytes_per_s"]
    priors = input_priors(group)
    if alpha > 0:  # false for NaN
        priors["latency_s", group.link] = (alpha / 2, alpha / 2)
    if beta > 0:
        priors["seconds_per_byte", group.link] = (beta, beta / 10)
    return priors


def _seconds_per_byte(cluster: str, seen: Findings | None) -> float:
    """Return the seconds per byte of payload on the link of a cluster; NaN if unknown."""
    if (link := link_of(cluster)) is not None:
        return link.seconds_per_byte
    if seen is None or seen.links.empty:
        return np.nan
    return 8 / float(seen.links["achieved_bit_s"].median())


def input_priors(group: CurveGroup) -> dict[Coefficient, tuple[float, float]]:
    """Return priors of curves with sharded input: reading examples of other nodes takes no time."""
    sharded = group.rows[group.rows["pipeline"] == "sharded"]
    return {
        ("input_per_example_s", curve): (0.0, _NOTHING_S) for curve in sharded["curve"].unique()
    }


def learned_priors(group: CurveGroup, fitted: Fit) -> Priors:
    """Return α and β of a fit as priors for other fits over the same link.

    Curves over one link are in different fits if the settings of their laws differ, such as the
    bytes of an activation. Latency and bandwidth of the link are still the same. They are taken as
    known within a tenth at best.
    """
    found: dict[Coefficient, tuple[float, float]] = {}
    for name in ("latency_s", "seconds_per_byte"):
        value, (low, high) = fitted.value(name, group.link), fitted.interval(name, group.link)
        spread = float(np.hypot((high - low) / _TAILS_APART, value / 10))
        if spread > 0:  # false for NaN: no such coefficient, or no draws
            found[name, group.link] = (value, spread)
    return found

"""What is known of coefficients before a fit: from calibrations, settings and other fits."""

from collections.abc import Iterable, Mapping

import numpy as np

from nodewise.core.cell import MOST_PER_MACHINE
from nodewise.predict import link_rates
from nodewise.predict.calibration import Findings, examine
from nodewise.predict.curve_groups import CurveGroup
from nodewise.predict.fit import Fit
from nodewise.predict.least_squares import Coefficient, Priors
from nodewise.results.calibration import Calibration

Calibrated = Mapping[tuple[str, str], Findings]
"""What calibrations found, by the label of a cluster, and machine."""

_NOTHING_S = 1e-9  # for an example: less than a clock tells
_TAILS_APART = 3.29  # standard deviations from end to end of a 90 % interval


def calibrated_links(calibrations: Iterable[Calibration]) -> Calibrated:
    """Return what calibrations found of links, which all workers of a machine share."""
    found = {}
    for one in calibrations:
        if one.status == "ok":
            seen = examine(one)
            for workers in range(1, MOST_PER_MACHINE + 1):
                cluster = one.cluster.with_per_machine(workers)
                found[cluster.label, one.provenance.cpu] = seen
    return found


def link_priors(group: CurveGroup, calibrated: Calibrated) -> Priors:
    """Return what is known beforehand of the link: of rings, servers and pipelines.

    Rings borrow from TensorFlow's in a calibration. A step's all-reduce is not quite the
    calibration's: bandwidth is taken for known within a tenth, and as messages hide behind bytes,
    latency for somewhere between nothing and the calibrated one.

    Servers have all bytes pass one link, which few workers do not fill yet: they do not show what
    it bears. It is taken for the configured rate less headers, or that of the stream of a
    calibration of hosts, within a tenth; so is that of pipelines, of which a cut is crossed by one
    message at a time.

    Args:
        group: curves over one link.
        calibrated: of clusters and machines that were calibrated.
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
    if alpha > 0:  # false of NaN
        priors["latency_s", group.link] = (alpha / 2, alpha / 2)
    if beta > 0:
        priors["seconds_per_byte", group.link] = (beta, beta / 10)
    return priors


def _seconds_per_byte(cluster: str, seen: Findings | None) -> float:
    """Return what a byte takes on the link of a cluster; NaN if nothing tells it."""
    if (link := link_rates.link_of(cluster)) is not None:
        return link.seconds_per_byte
    if seen is None or seen.links.empty:
        return np.nan
    return 8 / float(seen.links["achieved_bit_s"].median())


def input_priors(group: CurveGroup) -> dict[Coefficient, tuple[float, float]]:
    """Return that a node spends nothing on examples of others: of curves whose input is sharded."""
    sharded = group.rows[group.rows["pipeline"] == "sharded"]
    return {
        ("input_per_example_s", curve): (0.0, _NOTHING_S) for curve in sharded["curve"].unique()
    }


def learned_priors(group: CurveGroup, fitted: Fit) -> Priors:
    """Return α and β of a fit, within a tenth at best, as priors of other fits of its link.

    Curves of one link have fits of their own where their laws take different things for known, such
    as the bytes of an activation; latency and bandwidth are the link's all the same.
    """
    found: dict[Coefficient, tuple[float, float]] = {}
    for name in ("latency_s", "seconds_per_byte"):
        value, (low, high) = fitted.value(name, group.link), fitted.interval(name, group.link)
        spread = float(np.hypot((high - low) / _TAILS_APART, value / 10))
        if spread > 0:  # false of NaN: the law has none, or there are no draws
            found[name, group.link] = (value, spread)
    return found

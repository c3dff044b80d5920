"""One bandwidth for a whole published table, of which only the one-node column is known.

t(n) = t(1) + 2(n−1)/n·S/B, with the observed t(1) of each curve and one B for all models and
batches: they ran on the same machines. One number then gives every time on several nodes.

B minimises the mean absolute error of log t over the points on several nodes. Unlike squares, it
lets curves that obey another law (a bound input, say) stand aside instead of pulling B their way.
It is searched in steps of 0.1 %, since the sum of absolute errors may have several minima.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nodewise.overhead.fit import TAILS
from nodewise.overhead.formulas import Floats, RingAllReduce
from nodewise.overhead.groups import Group
from nodewise.overhead.judge import Trial

ONE_BANDWIDTH = "one bandwidth for the whole table, fitted to these points"
OTHER_MODELS = "one bandwidth, from the other models' points"

_TRIED = np.exp(np.arange(np.log(1e6), np.log(1e11), 1e-3))  # bytes per second


@dataclass(frozen=True)
class Spread:
    """The points on several nodes of one group: arrays of shape (points,).

    `base_s` is the observed step time on one node of the same batch; `sent` the bytes that a ring
    sends per node and step; `curve` numbers the batches of the group.
    """

    group: Group
    batch: Floats
    nodes: Floats
    base_s: Floats
    sent: Floats
    observed_s: Floats

    def predict(self, bandwidth: float) -> Floats:
        """Return step times in seconds at a bandwidth in bytes per second."""
        times: Floats = self.base_s + self.sent / bandwidth
        return times


@dataclass(frozen=True)
class SharedBandwidth:
    """Bytes per second, the 90 % interval over curves drawn anew, and what it was fitted to."""

    bandwidth: float
    low: float
    high: float
    points: int
    curves: int


def find_spreads(groups: Sequence[Group]) -> list[Spread]:
    """Return the groups' points on several nodes, of batches that have a point on one node."""
    spreads = []
    for group in groups:
        points = group.points
        alone = points.where(points.nodes == 1)
        base = dict(zip(alone.batch, alone.step_s, strict=True))
        several = points.where((points.nodes > 1) & np.isin(points.batch, [*base]))
        if len(several):
            design = RingAllReduce.design(several.nodes, several.batch, several.payload)
            spreads.append(
                Spread(
                    group,
                    several.batch,
                    several.nodes,
                    np.array([base[batch] for batch in several.batch]),
                    design[:, RingAllReduce.coefficients().index("seconds_per_byte")],
                    several.step_s,
                )
            )
    return spreads


def fit_bandwidth(
    spreads: Sequence[Spread], resamples: int, rng: np.random.Generator
) -> SharedBandwidth:
    """Fit one bandwidth to all points; a curve (one batch of one group) is what is drawn anew.

    Args:
        spreads: one or more.
        resamples: how many draws the interval comes from; with none both ends are NaN.
        rng: the source of chance.
    """
    errors = np.concatenate([_errors_by_curve(spread) for spread in spreads], axis=1)
    best = float(_TRIED[errors.sum(axis=1).argmin()])
    curves = errors.shape[1]
    low = high = np.nan
    if resamples:
        counts = rng.multinomial(curves, np.full(curves, 1 / curves), size=resamples)
        drawn = _TRIED[(errors @ counts.T).argmin(axis=0)]
        low, high = np.quantile(drawn, TAILS)
    points = sum(len(spread.batch) for spread in spreads)
    return SharedBandwidth(best, float(low), float(high), points, curves)


def try_bandwidth(spreads: Sequence[Spread], shared: SharedBandwidth) -> list[Trial]:
    """Return the step times by `shared`, and those by the bandwidth of the other models alone."""
    trials = [_trial(spread, ONE_BANDWIDTH, shared.bandwidth, held_out=False) for spread in spreads]
    for spread in spreads:
        model = spread.group.about["model"]
        others = [other for other in spreads if other.group.about["model"] != model]
        if others:
            bandwidth = fit_bandwidth(others, 0, np.random.default_rng()).bandwidth
            trials.append(_trial(spread, OTHER_MODELS, bandwidth, held_out=True))
    return trials


def _errors_by_curve(spread: Spread) -> Floats:
    """Return the summed absolute log errors, shape (bandwidths tried, batches)."""
    times = spread.base_s + spread.sent / _TRIED[:, None]
    errors = np.abs(np.log(times / spread.observed_s))
    batches = np.unique(spread.batch)
    return np.stack([errors[:, spread.batch == b].sum(axis=1) for b in batches], axis=1)


def _trial(spread: Spread, scenario: str, bandwidth: float, *, held_out: bool) -> Trial:
    return Trial(
        spread.group.about,
        scenario,
        RingAllReduce.name,
        spread.batch,
        spread.nodes,
        spread.observed_s,
        spread.predict(bandwidth),
        held_out,
    )

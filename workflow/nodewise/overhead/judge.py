"""How wrong the laws are where they were not fitted: the largest node counts, left out.

Points are left out by node count, never by repeat: repeats of a point that was fitted tell little
about a law.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from nodewise.overhead.fit import Points, fit
from nodewise.overhead.formulas import Amdahl, Floats, Law, Linear, Mask, RingAllReduce
from nodewise.overhead.groups import Group
from nodewise.tables import typed

EACH_BATCH = "largest node count left out, each batch alone"
TOGETHER = "largest node count left out, batches together"
LAWS: tuple[type[Law], ...] = (RingAllReduce, Amdahl, Linear)

JUDGEMENT = {
    "scenario": "str",
    "law": "str",
    "curves": "int64",
    "points": "int64",
    "median_error": "float64",
    "mean_error": "float64",
    "worst_error": "float64",
}
_LEAST_NODE_COUNTS = 3  # the fewest that leave two to fit, and one to be right or wrong about


@dataclass(frozen=True)
class Trial:
    """Step times that a law gave for some points of a group, beside those observed there.

    Arrays of shape (points,), seconds. `held_out`: the law was not fitted to these points.
    """

    about: dict[str, str]
    scenario: str
    law: str
    batch: Floats
    nodes: Floats
    observed_s: Floats
    fitted_s: Floats
    held_out: bool

    @property
    def errors(self) -> Floats:
        """|fitted/observed − 1| of each point."""
        return relative_error(self.fitted_s, self.observed_s)


def relative_error(fitted_s: ArrayLike, observed_s: ArrayLike) -> Floats:
    """Return |fitted/observed − 1|, NaN where either is."""
    errors: Floats = np.abs(np.asarray(fitted_s) / np.asarray(observed_s) - 1)
    return errors


def try_held_out(group: Group) -> list[Trial]:
    """Fit the laws without the largest node count of each batch, and predict it.

    Only batches with three node counts or more take part. With each batch alone all laws see the
    same points; a batch at which one of them cannot say anything is left out for all. The ring
    law is tried with the batches together as well, as its reported fits are made; the others are
    laws of one batch.
    """
    points = group.points
    held = _largest_nodes(points)
    trials = []
    for batch in np.unique(points.batch[held]):
        mine = points.batch == batch
        alone = [_try(law, points, mine & ~held, mine & held) for law in LAWS]
        if all(np.isfinite(fitted).all() for fitted in alone):
            trials += [
                _trial(group, EACH_BATCH, law, points.where(mine & held), fitted)
                for law, fitted in zip(LAWS, alone, strict=True)
            ]
    together = _try(RingAllReduce, points, ~held, held)
    if held.any() and np.isfinite(together).all():
        trials.append(_trial(group, TOGETHER, RingAllReduce, points.where(held), together))
    return trials


def judge(trials: Iterable[Trial]) -> pd.DataFrame:
    """Return the table `judgement`: per source and scenario, and per law, the errors over points.

    A curve is one batch of one group.
    """
    rows = [
        {
            "scenario": f"{trial.about['source']}: {trial.scenario}",
            "law": trial.law,
            "curve": (trial.about["curve"], batch),
            "error": error,
        }
        for trial in trials
        for batch, error in zip(trial.batch, trial.errors, strict=True)
    ]
    if not rows:
        return typed((), JUDGEMENT)
    groups = pd.DataFrame(rows).groupby(["scenario", "law"], sort=False)
    summary = groups.agg(
        curves=("curve", "nunique"),
        points=("error", "size"),
        median_error=("error", "median"),
        mean_error=("error", "mean"),
        worst_error=("error", "max"),
    )
    return typed(summary.reset_index(), JUDGEMENT)


def _largest_nodes(points: Points) -> Mask:
    held = np.zeros(len(points), dtype=bool)
    for batch in np.unique(points.batch):
        mine = points.batch == batch
        counts = np.unique(points.nodes[mine])
        if len(counts) >= _LEAST_NODE_COUNTS:
            held |= mine & (points.nodes == counts[-1])
    return held


def _try(law: type[Law], points: Points, train: Mask, test: Mask) -> Floats:
    asked = points.where(test)
    return fit(law, points.where(train)).evaluate(asked.nodes, asked.batch, asked.payload)


def _trial(group: Group, scenario: str, law: type[Law], points: Points, fitted_s: Floats) -> Trial:
    return Trial(
        group.about, scenario, law.name, points.batch, points.nodes, points.step_s, fitted_s, True
    )

"""Model the steps to an accuracy by global batch: steps(G) = S_min + E_min/G = S_min·(1 + B_c/G).

S_min is the number of steps that even the largest batch needs, E_min the number of examples that
even the smallest batch needs. The critical batch B_c = E_min/S_min needs twice as many of both
(S. McCandlish et al., An empirical model of large-batch training, 2018, arXiv:1812.06162, equation
2.11). The law assumes that the learning rate is tuned to each batch. Runs that all have the same
learning rate follow it with a different B_c.

The law is fitted to runs at two or more global batches: our own runs of whole epochs, counts of
users, or published ones (`published_convergence`). Tuned trainings scatter around it by a factor
e^τ from batch to batch, beside the scatter of single runs. Given B_c and τ, the best E_min is a
weighted mean, so all B_c and τ of a grid are tried; each weighs as much as it is likely (A. Gelman
et al., Bayesian Data Analysis, 3rd ed., 2013, section 5.4). The gradient noise scale gives only
B_c.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from nodewise.core.exchanges import exchanges_where
from nodewise.predict.fit import DRAWS, TAILS
from nodewise.predict.points import Floats

SOURCE = "S. McCandlish et al., An empirical model of large-batch training, 2018, arXiv:1812.06162"
Key = tuple[str, str, str]
"""The values of the columns `KEY`, which identify a training task."""
KEY = ("model", "dataset", "data_origin")

BY_NOISE, BY_EPOCHS = "noise scale", "whole epochs"
"""The sources of a law of steps to an accuracy."""
_SEED = 18120
_CRITICAL = np.linspace(0, np.log(1e8), 320)  # logarithms of the critical batches that are tried
_SCATTER = np.geomspace(0.008, 0.4, 25)  # values of τ that are tried
_CRITICAL_PRIOR = np.log(3000), 4.0  # mean and deviation: published ones are 40 to 200,000
_SCATTER_PRIOR = np.log(0.035), 1.0  # the same of log τ; the intervals of published points hold
_RUNS, _RUNS_FREEDOM = 0.05, 3.0  # prior of the scatter of runs, and its weight in runs


class NotEnoughRunsError(ValueError):
    """The runs do not show how steps depend on the batch. The message says what to measure."""


@dataclass(frozen=True)
class StepsToAccuracy:
    """The law of steps to an accuracy, with its coefficients.

    Attributes:
        minimum_steps: S_min.
        minimum_examples: E_min.
        draws: equally likely values of S_min and E_min, (draws, 2).
        target: the training accuracy to reach. None for a target of others; and for a noise scale,
            for which only the ratio E_min/S_min has a meaning.
        scatter: logarithms of equally likely factors by which tuned trainings are off the law,
            (draws,) or 0.
    """

    minimum_steps: float
    minimum_examples: float
    draws: Floats
    target: float | None = None
    scatter: Floats | float = 0.0

    @property
    def critical_batch(self) -> float:
        """B_c in examples; infinite if all measured batches were too small to tell."""
        return self.minimum_examples / self.minimum_steps if self.minimum_steps else np.inf

    @property
    def critical_batch_interval(self) -> tuple[float, float]:
        """Both ends of the 90 % interval of B_c."""
        with np.errstate(divide="ignore"):
            drawn = self.draws[:, 1] / self.draws[:, 0]
        # an order statistic, because draws may be infinite and cannot be interpolated then
        low, high = np.quantile(drawn, TAILS, method="nearest").tolist()
        return low, high

    def evaluate(self, global_batch: ArrayLike) -> Floats:
        """Return the number of steps at global batches, (points,)."""
        return self.minimum_steps + self.minimum_examples / np.asarray(global_batch, np.float64)

    def draw(self, global_batch: ArrayLike, draws: int) -> Floats:
        """Return `draws` equally likely numbers of steps at global batches, (draws, points).

        They are those of one tuned training: its factor is the same at all batches.
        """
        all_draws = self.draws * np.exp(self.scatter)[..., None]
        chosen = all_draws[np.arange(draws) % len(self.draws)]
        return chosen[:, :1] + chosen[:, 1:] / np.asarray(global_batch, dtype=np.float64)

    def examples(self, global_batch: ArrayLike, draws: int = 0) -> Floats:
        """Return the examples at global batches: by the law, then by draws, (1 + draws, points)."""
        batch = np.asarray(global_batch, dtype=np.float64)
        steps = np.vstack([self.evaluate(batch), self.draw(batch, draws)])
        return np.asarray(batch * steps)

    def at_level_of(self, global_batch: ArrayLike, steps: ArrayLike) -> Self:
        """Return the law of a training that needed so many steps, with this critical batch.

        Args:
            global_batch: examples per step, (runs,).
            steps: number of steps of each run, (runs,).
        """
        batch, logs, _ = _by_batch(global_batch, steps)
        ours = logs - np.log(batch)
        off = float((ours - np.log(self.evaluate(batch))).mean())
        drawn = np.log(self.draws[:, :1] + self.draws[:, 1:] / batch)
        offs = (ours - drawn).mean(axis=1) + np.roll(self.scatter, 1) / np.sqrt(len(batch))
        return replace(
            self,
            minimum_steps=self.minimum_steps * np.exp(off),
            minimum_examples=self.minimum_examples * np.exp(off),
            draws=self.draws * np.exp(offs)[:, None],
        )


class KnownSteps(NamedTuple):
    """The law of steps of a model on a dataset, or what is missing to know it.

    `basis` is the source of the law: `BY_NOISE` or `BY_EPOCHS`.
    """

    key: Key
    basis: str
    law: StepsToAccuracy | None
    missing: str = ""

    def row(self) -> dict[str, object]:
        """Return the row of the table `steps_to_accuracy`."""
        law = self.law
        low, high = law.critical_batch_interval if law else (np.nan, np.nan)
        return dict(zip(KEY, self.key, strict=True)) | {
            "basis": self.basis,
            "kind": "measured" if self.basis == BY_NOISE else "fitted",
            "target": law.target if law and law.target else np.nan,
            "minimum_steps": law.minimum_steps if law and law.target else np.nan,
            "critical_batch": law.critical_batch if law else np.nan,
            "critical_batch_low": low,
            "critical_batch_high": high,
            "missing": self.missing,
        }


def find_steps(
    epochs: pd.DataFrame, cells: pd.DataFrame, noise_scale: pd.DataFrame
) -> list[KnownSteps]:
    """Return all laws of steps: first those from noise scales, then those from runs.

    Runs are synchronous ones of whole epochs.

    Args:
        epochs: the table `epochs`.
        cells: the table `cells`.
        noise_scale: the table `noise_scale`.
    """
    known = [KnownSteps(key, BY_NOISE, by_noise(rows)) for key, rows in _by_key(noise_scale)]
    for key, runs in _by_key(whole_runs(epochs, cells)):
        try:
            known.append(KnownSteps(key, BY_EPOCHS, fit_steps(runs)))
        except NotEnoughRunsError as error:
            known.append(KnownSteps(key, BY_EPOCHS, None, str(error)))
    return known


def fit_steps(epochs: pd.DataFrame, target: float | None = None) -> StepsToAccuracy:
    """Fit the law to synchronous runs of one model on one dataset.

    Args:
        epochs: rows of the table `epochs`: `cell_id`, `batch_per_worker`, `nodes`, `epoch`,
            `steps`, `accuracy` (over the epoch).
        target: the training accuracy to reach; by default the highest that every run reaches.

    Raises:
        NotEnoughRunsError: fewer than two global batches were seen to reach it.
    """
    if target is None:
        most = epochs.groupby("cell_id")["accuracy"].max()
        target = float(most.min()) if len(most) else np.nan
    return fit_counted(*runs_to(epochs, target), target)


def runs_to(epochs: pd.DataFrame, target: float) -> tuple[Floats, Floats]:
    """Return the global batches of the runs that were seen to reach a target, and their steps.

    Args:
        epochs: rows of the table `epochs`, as for `fit_steps`.
        target: the training accuracy to reach.
    """
    reached = [
        (run["batch_per_worker"].iloc[0] * run["nodes"].iloc[0], _steps_at(run, target))
        for _, run in epochs.sort_values("epoch").groupby("cell_id")
    ]
    batch, steps = np.array(reached, dtype=np.float64).reshape(-1, 2).T
    seen = np.isfinite(steps)
    return batch[seen], steps[seen]


def whole_runs(epochs: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """Return the epochs of synchronous runs of whole epochs, from which laws are fitted."""
    whole = cells["whole_epochs"] & (cells["status"] == "ok")
    wanted = cells.loc[whole & updates_exactly(cells), "cell_id"]
    return epochs[epochs["cell_id"].isin(wanted)]


def fit_counted(
    global_batch: ArrayLike, steps: ArrayLike, target: float | None = None
) -> StepsToAccuracy:
    """Fit the law to numbers of steps until an accuracy was reached.

    Args:
        global_batch: examples per step, (runs,).
        steps: number of steps of each run, (runs,).
        target: the training accuracy; None if users counted the steps to a target of their own.

    Raises:
        NotEnoughRunsError: there are fewer than two global batches.
    """
    if len(np.unique(np.asarray(global_batch))) < 2:
        aim = "the accuracy" if target is None else f"an accuracy of {target:.3f}"
        raise NotEnoughRunsError(
            f"two global batches or more must be seen to reach {aim} between two epochs: measure "
            "whole epochs at another batch, or more epochs"
        )
    return _integrate(*_by_batch(global_batch, steps), target)


def _by_batch(global_batch: ArrayLike, steps: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Return batches, mean logs of their runs' examples, and standard errors of these means."""
    batch = np.asarray(global_batch, np.float64)
    logs = pd.Series(np.log(batch * np.asarray(steps, np.float64))).groupby(batch)
    rows = logs.agg(["size", "mean", "var"]).fillna(0.0)
    runs, mean, variance = rows.to_numpy(np.float64).T
    squares = variance * (runs - 1) + _RUNS_FREEDOM * _RUNS**2
    error = np.sqrt(squares / (_RUNS_FREEDOM + runs - 1) / runs)
    return rows.index.to_numpy(np.float64), mean, np.asarray(error)


def _integrate(batch: Floats, logs: Floats, error: Floats, target: float | None) -> StepsToAccuracy:
    """Return the law by all critical batches and scatters of the grid, each as likely as it is.

    Args:
        batch: global batches, (batches,).
        logs: logarithm of the examples that each needs, (batches,).
        error: standard error of each, (batches,).
        target: the training accuracy that was reached, if known.
    """
    rest = logs[:, None] - np.log1p(batch[:, None] / np.exp(_CRITICAL))  # (batches, critical)
    variance = error[:, None] ** 2 + _SCATTER**2  # (batches, scatters)
    weight = 1 / variance
    total = weight.sum(axis=0)[:, None]
    level = weight.T @ rest / total  # log E_min, (scatters, critical)
    likely = weight.T @ rest**2 - total * level**2 + np.log(variance).sum(axis=0)[:, None]
    likely += np.log(total) + ((_CRITICAL - _CRITICAL_PRIOR[0]) / _CRITICAL_PRIOR[1]) ** 2
    likely += ((np.log(_SCATTER) - _SCATTER_PRIOR[0]) / _SCATTER_PRIOR[1])[:, None] ** 2
    share = np.exp((likely.min() - likely) / 2)
    rng = np.random.default_rng(_SEED)
    places = rng.permutation((np.arange(DRAWS) + 0.5) / DRAWS) * share.sum()
    scatter, critical = np.unravel_index(np.searchsorted(share.cumsum(), places), share.shape)
    off, tuned = rng.standard_normal((2, DRAWS))
    examples = np.exp(level[scatter, critical] + off / np.sqrt(total[scatter, 0]))
    drawn = np.column_stack([examples / np.exp(_CRITICAL[critical]), examples])
    steps, examples = np.median(drawn, axis=0).tolist()
    return StepsToAccuracy(steps, examples, drawn, target, _SCATTER[scatter] * tuned)


def by_noise(noise_scale: pd.DataFrame) -> StepsToAccuracy:
    """Return the law up to a factor, with the gradient noise scale B_simple = tr Σ/|G|² as B_c.

    B_c is the median over the points of a training. Draws are a bootstrap: points, and groups of
    batches at each point, are resampled. Steps are relative to those of a batch of one example.

    Args:
        noise_scale: rows of the table `noise_scale` for one model, with its columns `noise` and
            `signal`. Estimates may be below 0.
    """
    points = [point for _, point in noise_scale.groupby("step")]
    both = np.array([[point[name] for point in points] for name in ("noise", "signal")], float)
    _, count, groups = both.shape
    rng = np.random.default_rng(_SEED)
    taken = rng.integers(count, size=(DRAWS, count, 1))
    drawn = both[:, taken, rng.integers(groups, size=(DRAWS, count, groups))]
    share = np.median(_signal_share(*drawn.mean(axis=-1)), axis=-1)
    best = float(np.median(_signal_share(*both.mean(axis=-1))))
    return StepsToAccuracy(best, 1 - best, np.column_stack([share, 1 - share]))


def updates_exactly(rows: pd.DataFrame) -> "pd.Series[bool]":
    """Return which rows exchange so that exactly n·b examples make one update."""
    return rows["exchange"].isin(exchanges_where(lambda exchange: exchange.exact))


def _by_key(table: pd.DataFrame) -> Iterator[tuple[Key, pd.DataFrame]]:
    for (model, dataset, origin), rows in table.groupby([*KEY]):
        yield (str(model), str(dataset), str(origin)), rows


def _signal_share(noise: Floats, signal: Floats) -> Floats:
    """Return 1/(1 + B), which is S_min relative to the steps of a batch of one example.

    It is finite even if B is not.
    """
    signal, noise = np.maximum(signal, 0.0), np.maximum(noise, 0.0)
    together = signal + noise
    return np.divide(signal, together, out=np.ones_like(together), where=together > 0)


def _steps_at(run: pd.DataFrame, target: float) -> float:
    """Return the steps after which a run reaches `target`; NaN if that was not observed.

    The accuracy of an epoch is a mean over the epoch, so it is assigned to the middle of the epoch
    and interpolated between middles. If the first epoch is above the target already, the time of
    reaching it is unknown.
    """
    accuracy = run["accuracy"].to_numpy(np.float64)
    steps = run["steps"].to_numpy(np.float64)
    middle = np.cumsum(steps) - steps / 2
    above = np.flatnonzero(accuracy >= target)
    if not len(above) or above[0] == 0:
        return np.nan
    around = slice(above[0] - 1, above[0] + 1)
    return float(np.interp(target, accuracy[around], middle[around]))

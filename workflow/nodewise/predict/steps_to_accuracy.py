"""Model the steps to an accuracy by global batch: steps(G) = S_min + E_min/G = S_min·(1 + B_c/G).

S_min is the number of steps that even the largest batch needs, E_min the number of examples that
even the smallest batch needs. The critical batch B_c = E_min/S_min needs twice as many of both
(`SOURCE`, equation 2.11). The law assumes that the learning rate is tuned to each batch. Runs that
all have the same learning rate follow it with a different B_c.

The law is fitted to runs at two or more global batches: our own runs of whole epochs, counts of
users, or MLPerf's reference convergence points (`data/published/convergence/reference_points.csv`).
Tuned trainings scatter around it by a factor e^τ from batch to batch, beside the scatter of single
runs. Given B_c and τ, the best E_min is a weighted mean, so all B_c and τ of a grid are tried; each
weighs as much as it is likely (A. Gelman et al., Bayesian Data Analysis, 3rd ed., 2013, section
5.4). The gradient noise scale gives only B_c.
"""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from nodewise.core.errors import UserError
from nodewise.core.exchanges import exchanges_where
from nodewise.predict.fit import DRAWS, TAILS
from nodewise.predict.points import Floats
from nodewise.results import published
from nodewise.results.csv_file import parse_number
from nodewise.results.tables import build_tables

SOURCE = "S. McCandlish et al., An empirical model of large-batch training, 2018, arXiv:1812.06162"
KEY = ["model", "dataset", "data_origin"]
"""The columns that identify a training task."""

BY_NOISE, BY_EPOCHS = "noise scale", "whole epochs"
"""The sources of a law of steps to an accuracy."""
_SEED = 18120
_CRITICAL = np.linspace(0, np.log(1e8), 320)  # logarithms of the critical batches that are tried
_SCATTER = np.geomspace(0.008, 0.4, 25)  # values of τ that are tried
_CRITICAL_PRIOR = np.log(3000), 4.0  # mean and deviation: published ones are 40 to 200,000
_SCATTER_PRIOR = np.log(0.035), 1.0  # the same of log τ; the intervals of published points hold
_RUNS, _RUNS_FREEDOM = 0.05, 3.0  # prior of the scatter of runs, and its weight in runs
_FEW_BATCHES = 4  # least number of batches that say how learning rates grow

Counts = tuple[tuple[float, float], ...]
"""Global batches, and the examples that a training with each needed to its target."""


@dataclass(frozen=True)
class StepsToAccuracy:
    """The law of steps to an accuracy. By a noise scale, it is known up to a factor.

    Attributes:
        coefficients: S_min and E_min: the best values, then equally likely ones, (1 + draws, 2).
        scatter: logarithms of equally likely factors by which tuned trainings are off the law,
            (1 + draws,); the first is 0.
        counted: batches of which a training's examples are known, (batches, 1), and the logarithms
            of the factors that they owe to their tuning, (1 + draws,); None without counts.
    """

    coefficients: Floats
    scatter: Floats
    counted: tuple[Floats, Floats] | None = None

    @property
    def critical_batch(self) -> float:
        """B_c in examples; infinite if all measured batches were too small to tell."""
        steps, examples = self.coefficients[0].tolist()
        return examples / steps if steps else np.inf

    @property
    def critical_batch_interval(self) -> tuple[float, float]:
        """Both ends of the 90 % interval of B_c."""
        with np.errstate(divide="ignore"):
            drawn = self.coefficients[1:, 1] / self.coefficients[1:, 0]
        # an order statistic, because draws may be infinite and cannot be interpolated then
        low, high = np.quantile(drawn, TAILS, method="nearest").tolist()
        return low, high

    def examples(self, global_batch: ArrayLike, draws: int = 0) -> Floats:
        """Return the examples at global batches: by the law, then by draws, (1 + draws, points).

        A draw is one tuned training: its factor is the same at all batches.
        """
        rows = np.append(0, 1 + np.arange(draws) % (len(self.coefficients) - 1))
        tuned = self.coefficients[rows] * np.exp(self.scatter[rows])[:, None]
        batch = np.atleast_1d(global_batch).astype(float)
        found = tuned[:, :1] * batch + tuned[:, 1:]
        if self.counted:
            known, owed = self.counted
            near = np.minimum(batch / known, known / batch).max(axis=0)
            found *= np.exp(owed[rows, None] * near)
        return np.asarray(found)

    def at_level_of(self, global_batch: ArrayLike, examples: ArrayLike) -> Self:
        """Return the law of a training with this critical batch that needed so many examples.

        They are off by a factor e^r because of the training, at all batches, or of the tuning of
        their own. As that is about e^τ, the training owes r²/(r² + τ²) of r (shrinkage: B. Efron
        and C. Morris, JASA 68, 1973). The rest halves with each doubling of the batch.

        The arguments have shape (runs,).
        """
        batch, logs, _ = _by_batch(global_batch, examples)
        by_law = self.coefficients @ np.array([batch, np.ones_like(batch)])
        off = (logs - np.log(by_law)).mean(axis=1)
        tuned = np.append(0, np.roll(self.scatter[1:], 1)) / np.sqrt(len(batch))
        level = off**2 / (off**2 + tuned.var() + 1e-300)  # a law without scatter may be met exactly
        factor = np.exp(level * off + np.sqrt(level) * tuned)
        known = batch[:, None], (1 - level) * off
        return replace(self, coefficients=self.coefficients * factor[:, None], counted=known)


def find_steps(
    epochs: pd.DataFrame, cells: pd.DataFrame, noise_scale: pd.DataFrame
) -> list[dict[str, Any]]:
    """Return the rows of the table `steps_to_accuracy`, each with its `law`, None if unknown.

    Laws of noise scales come first, then those of synchronous runs of whole epochs. Their target is
    the highest training accuracy that every run reaches. The arguments are tables of a study.
    """
    rows: list[dict[str, Any]] = [
        dict(zip(KEY, key, strict=True))
        | {"basis": BY_NOISE, "kind": "measured", "missing": "", "law": by_noise(points)}
        for key, points in noise_scale.groupby(KEY)
    ]
    for key, runs in whole_runs(epochs, cells).groupby(KEY):
        target = float(runs.groupby("cell_id")["accuracy"].max().min())
        batch, examples = runs_to(runs, target)
        row: dict[str, Any] = dict(zip(KEY, key, strict=True)) | {"law": None}
        row |= {"basis": BY_EPOCHS, "kind": "fitted", "missing": ""}
        if len(np.unique(batch)) > 1:
            row["law"], row["target"] = fit_counted(batch, examples), target
            row["minimum_steps"] = row["law"].coefficients[0, 0]
        else:
            row["missing"] = (
                f"two global batches or more must be seen to reach an accuracy of {target:.3f} "
                "between two epochs: measure whole epochs at another batch, or more epochs"
            )
        rows.append(row)
    for row in rows:
        if law := row["law"]:
            low, high = law.critical_batch_interval
            row["critical_batch"] = law.critical_batch
            row |= {"critical_batch_low": low, "critical_batch_high": high}
    return rows


def runs_to(epochs: pd.DataFrame, target: float) -> Floats:
    """Return global batches of the runs that were seen to reach a target, and examples, (2, runs).

    The accuracy of an epoch is a mean over the epoch, so it is assigned to the middle of the epoch
    and interpolated between middles. If the first epoch is above the target already, the time of
    reaching it is unknown.

    `epochs` are rows of the table `epochs` of one task.
    """
    found = []
    for _, run in epochs.sort_values("epoch").groupby("cell_id"):
        above = np.flatnonzero(run["accuracy"] >= target)
        if len(above) and above[0]:
            around = slice(above[0] - 1, above[0] + 1)
            middle = run["steps"].cumsum() - run["steps"] / 2
            steps = np.interp(target, run["accuracy"].iloc[around], middle.iloc[around])
            batch = run["batch_per_worker"].iloc[0] * run["nodes"].iloc[0]
            found.append((batch, batch * steps))
    return np.array(found, float).reshape(-1, 2).T


def whole_runs(epochs: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """Return the epochs of synchronous runs of whole epochs, from which laws are fitted."""
    whole = cells["whole_epochs"] & (cells["status"] == "ok")
    wanted = cells.loc[whole & updates_exactly(cells), "cell_id"]
    return epochs[epochs["cell_id"].isin(wanted)]


def updates_exactly(rows: pd.DataFrame) -> "pd.Series[bool]":
    """Return which rows exchange so that exactly n·b examples make one update."""
    return rows["exchange"].isin(exchanges_where(lambda exchange: exchange.exact))


def fit_counted(global_batch: ArrayLike, examples: ArrayLike) -> StepsToAccuracy:
    """Fit the law to the examples of runs until an accuracy was reached.

    The best values are the most likely ones of the grid. In the draws, all critical batches and
    scatters count as much as they are likely. The arguments have shape (runs,); there are two
    global batches or more.
    """
    batch, logs, error = _by_batch(global_batch, examples)
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
    least = np.exp(level[scatter, critical] + off / np.sqrt(total[scatter, 0]))
    best = np.unravel_index(likely.argmin(), likely.shape)
    critical, least = np.append(best[1], critical), np.append(np.exp(level[best]), least)
    coefficients = np.column_stack([least / np.exp(_CRITICAL[critical]), least])
    return StepsToAccuracy(coefficients, np.append(0, _SCATTER[scatter] * tuned))


def _by_batch(global_batch: ArrayLike, examples: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Return batches, mean logs of their runs' examples, and standard errors of these means."""
    logs = pd.Series(np.log(np.asarray(examples, float))).groupby(np.asarray(global_batch, float))
    rows = logs.agg(["size", "mean", "var"]).fillna(0.0)
    runs, mean, variance = rows.to_numpy(float).T
    squares = variance * (runs - 1) + _RUNS_FREEDOM * _RUNS**2
    error = np.sqrt(squares / (_RUNS_FREEDOM + runs - 1) / runs)
    return rows.index.to_numpy(float), mean, np.asarray(error)


def by_noise(noise_scale: pd.DataFrame) -> StepsToAccuracy:
    """Return the law up to a factor, with the gradient noise scale B_simple = tr Σ/|G|² as B_c.

    B_c is the median over the points of a training. Draws are a bootstrap: points, and groups of
    batches at each point, are resampled. Steps are relative to those of a batch of one example:
    S_min is 1/(1 + B_c), which is finite even if B_c is not.

    `noise_scale` are rows of the table `noise_scale` for one model. Estimates may be below 0.
    """
    points = noise_scale.groupby("step")
    both = np.array([[*points[name].agg(list)] for name in ("noise", "signal")], float)
    _, count, groups = both.shape
    rng = np.random.default_rng(_SEED)
    taken = rng.integers(count, size=(DRAWS, count, 1))
    drawn = both[:, taken, rng.integers(groups, size=(DRAWS, count, groups))].mean(axis=-1)
    noise, signal = np.maximum(np.concatenate([both.mean(axis=-1)[:, None], drawn], axis=1), 0.0)
    total = noise + signal
    share = np.median(np.divide(signal, total, out=np.ones_like(total), where=total > 0), axis=-1)
    return StepsToAccuracy(np.column_stack([share, 1 - share]), np.zeros_like(share))


@cache
def reference_runs() -> pd.DataFrame:
    """Return one row per run: `benchmark`, `model`, `global_batch` and `examples` to the target.

    The unit of `examples` is an epoch where its size is unknown; `known` says whether it is not.
    """
    table = published.read("convergence/reference_points")
    rows = table.assign(examples=table["values"].str.split()).explode("examples")
    per_unit = rows["samples_per_unit"]
    examples = rows["examples"].astype(float) * per_unit.fillna(1.0)
    return rows.assign(examples=examples, known=per_unit.notna())


@cache
def published_laws() -> dict[str, StepsToAccuracy]:
    """Return the law of each benchmark."""
    return {
        str(name): fit_counted(runs["global_batch"], runs["examples"])
        for name, runs in reference_runs().groupby("benchmark")
    }


def rate_exponent(converges_like: str) -> tuple[float, float, int] | None:
    """Return the exponent of the batch by which published learning rates grow.

    It is a least squares fit of logarithms, with its standard error and the number of batches; None
    if fewer than four batches share an optimizer. The usual rules are 1 (P. Goyal et al.,
    arXiv:1706.02677) and 1/2 (A. Krizhevsky, arXiv:1404.5997).
    """
    runs = reference_runs()
    points = runs[(runs["benchmark"] == converges_like.lower()) & (runs["learning_rate"] > 0)]
    points = points.drop_duplicates(["global_batch", "round"]).fillna({"optimizer": ""})
    points = points[points["optimizer"] == points["optimizer"].mode().get(0)]
    count = int(points["global_batch"].nunique())
    if count < _FEW_BATCHES:
        return None
    batch, rate = np.log(points["global_batch"]), np.log(points["learning_rate"])
    coefficients, covariance = np.polyfit(batch, rate, 1, cov=True)
    return float(coefficients[0]), float(covariance[0, 0] ** 0.5), count


def law_like(converges_like: str | None, counts: Counts = ()) -> StepsToAccuracy | None:
    """Return the law of a training; None if nothing is known of it.

    Args:
        converges_like: a published benchmark or a file of `nodewise measure-noise-scale`, which
            give the critical batch. Default: it follows from the counts.
        counts: the user's own counts, for the level. Default: as many as the benchmark needs.

    Raises:
        UserError: the benchmark or the file is unknown, or the counts say too little.
    """
    batch, examples = np.array(counts, float).reshape(-1, 2).T
    if converges_like is None:
        if len(counts) == 1:
            raise UserError(
                "--samples-to-target: one batch does not say how examples grow with it; give two, "
                "or --converges-like"
            )
        return fit_counted(batch, examples) if counts else None
    laws, name = published_laws(), converges_like.lower()
    if name.endswith(".json"):
        tables = build_tables([], None, noise_scale_paths=[Path(converges_like)])
        law = by_noise(tables["noise_scale"])
    elif name in laws:
        law = laws[name]
    else:
        raise UserError(f"--converges-like {converges_like[:40]}: must be one of {', '.join(laws)}")
    runs = reference_runs()
    if not counts and name not in {*runs.loc[runs["known"], "benchmark"]}:
        raise UserError(f"--converges-like {converges_like}: has no level; add --samples-to-target")
    return law.at_level_of(batch, examples) if counts else law


def parse_counts(text: str | None) -> Counts:
    """Return the counts in a text such as `256:1.9e6,1024:2.2e6`: global batch and examples.

    Raises:
        UserError: the text is not of this form, or a batch appears twice.
    """
    try:
        pairs = [part.split(":") for part in (text or "").split(",") if part.strip()]
        counts = tuple((parse_number(b, 1, 1e15), parse_number(n, 1, 1e18)) for b, n in pairs)
    except ValueError:
        raise UserError(
            f"--samples-to-target {text!s:.60}: must be batches and examples, such as "
            "256:1.9e6,1024:2.2e6"
        ) from None
    if len({batch for batch, _ in counts}) < len(counts):
        raise UserError(f"--samples-to-target {text!s:.60}: has a batch twice")
    return counts

"""Steps to an accuracy by global batch: steps(G) = S_min + E_min/G = S_min·(1 + B_c/G).

S_min steps is what even the largest batch takes, E_min examples what even the smallest one takes;
B_c = E_min/S_min, the critical batch, takes twice of both (S. McCandlish et al., An empirical model
of large-batch training, 2018, arXiv:1812.06162, equation 2.11). The law is one of batches whose
learning rate suits them; runs that all have the same one follow it with a B_c of their own.

It comes from runs of whole epochs at two or more global batches, or, up to a factor, from the
gradient noise scale: then only ratios of steps mean anything.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from nodewise.predict.fit import DRAWS, TAILS, fit
from nodewise.predict.law import Floats, Law, Parameter, b, positive
from nodewise.predict.points import Points

SYNCHRONOUS = ("none", "ring", "star", "devices", "activations")
"""Ways of bringing gradients together in which n·b examples make one update, exactly."""

SOURCE = "S. McCandlish et al., An empirical model of large-batch training, 2018, arXiv:1812.06162"
Key = tuple[str, str, str]
"""What steps are of: the values of `KEY`."""
KEY = ("model", "dataset", "data_origin")

BY_NOISE, BY_EPOCHS = "noise scale", "whole epochs"
"""What steps to an accuracy are known by."""
_NOISE = ("noise", "signal")
_SEED = 18120


class NotEnoughRunsError(ValueError):
    """What was measured does not tell how steps depend on the batch; the text says what would."""


@dataclass(frozen=True)
class StepsToAccuracy:
    """The law with its coefficients: `minimum_steps` S_min, `minimum_examples` E_min.

    `draws`, of shape (draws, 2), are equally likely values of both. `target` is the training
    accuracy that is reached; None if it is not known. Unless steps were `measured`, as somebody
    says, or there is a target, the law is known up to a factor only.
    """

    minimum_steps: float
    minimum_examples: float
    draws: Floats
    target: float | None = None
    measured: bool = False

    @property
    def critical_batch(self) -> float:
        """B_c in examples; infinite if no batch seen was large enough to tell."""
        return float(_critical(self.minimum_steps, self.minimum_examples))

    @property
    def critical_batch_interval(self) -> tuple[float, float]:
        """Both ends of the 90 % interval of B_c."""
        # an order statistic: between a number and infinity there is nothing to interpolate
        ends = np.quantile(_critical(*self.draws.T), TAILS, method="nearest")
        return float(ends[0]), float(ends[1])

    def evaluate(self, global_batch: ArrayLike) -> Floats:
        """Return the steps that batches of shape (points,) take."""
        return self.minimum_steps + self.minimum_examples / np.asarray(global_batch, np.float64)

    def draw(self, global_batch: ArrayLike, draws: int) -> Floats:
        """Return `draws` equally likely steps of each batch, shape (draws, points)."""
        chosen = self.draws[np.arange(draws) % len(self.draws)]
        return chosen[:, :1] + chosen[:, 1:] / np.asarray(global_batch, dtype=np.float64)


class KnownSteps(NamedTuple):
    """The steps of a model on a dataset by batch: their law, or what is missing to tell it.

    `basis` is what they are known by, `kind` of what kind that is.
    """

    key: Key
    basis: str
    kind: str
    law: StepsToAccuracy | None
    missing: str = ""


class _StepsByBatch(Law):
    """The law in the form that `fit` takes: what depends on the batch is a number of steps here."""

    name = "steps"
    title = "Steps to an accuracy"
    source = SOURCE
    parameters = (
        Parameter(
            "S_min",
            "minimum_steps",
            "1",
            "model",
            "minimum number of steps, with very large batches",
        ),
        Parameter(
            "E_min",
            "minimum_examples",
            "1",
            "model",
            "minimum number of examples, with very small batches",
        ),
    )
    step = positive("S_min") + positive("E_min") / b  # b is the global batch here


def fit_steps(epochs: pd.DataFrame, target: float | None = None) -> StepsToAccuracy:
    """Fit the law to synchronous runs of one model on one dataset.

    Args:
        epochs: rows of the table `epochs`: `cell_id`, `batch_per_worker`, `nodes`, `epoch`,
            `steps`, `accuracy` (over the epoch).
        target: the training accuracy to reach; if not given the highest that every run reaches.

    Raises:
        NotEnoughRunsError: not even two global batches were seen to reach it.
    """
    runs = [run.sort_values("epoch") for _, run in epochs.groupby("cell_id")]
    if target is None:
        target = min((float(run["accuracy"].max()) for run in runs), default=np.nan)
    reached = [(_global_batch(run), _steps_at(run, target)) for run in runs]
    batch, steps = np.array(reached, dtype=np.float64).reshape(-1, 2).T
    seen = np.isfinite(steps)
    if len(np.unique(batch[seen])) < 2:
        raise NotEnoughRunsError(_missing(np.unique(batch), np.unique(batch[seen]), target))
    return fit_counted(batch[seen], steps[seen], target)


def fit_counted(
    global_batch: ArrayLike, steps: ArrayLike, target: float | None = None
) -> StepsToAccuracy:
    """Fit the law to steps that were counted until an accuracy was reached.

    Args:
        global_batch: examples per step, (runs,).
        steps: of each run, (runs,).
        target: the training accuracy; None: somebody counted the steps to one of their own.

    Raises:
        NotEnoughRunsError: of fewer than two global batches.
    """
    if len(np.unique(np.asarray(global_batch))) < 2:
        raise NotEnoughRunsError("steps of two global batches or more are needed")
    fitted = fit(_StepsByBatch(), Points.of(1, global_batch, 0, steps))
    minimum_steps, minimum_examples = fitted.values.tolist()
    return StepsToAccuracy(
        minimum_steps, minimum_examples, fitted.draws, target, measured=target is None
    )


def find_runs(epochs: pd.DataFrame, cells: pd.DataFrame) -> Iterator[tuple[Key, pd.DataFrame]]:
    """Yield what can be compared: synchronous runs of whole epochs of a model on one dataset.

    Args:
        epochs: the table `epochs`.
        cells: the table `cells`.

    Yields:
        What they are of, and rows of `epochs` for `fit_steps`.
    """
    whole = cells["whole_epochs"] & (cells["status"] == "ok")
    wanted = cells.loc[whole & cells["exchange"].isin(SYNCHRONOUS), "cell_id"]
    runs = epochs[epochs["cell_id"].isin(wanted)]
    yield from _by_key(runs)


def find_noise(noise_scale: pd.DataFrame) -> Iterator[tuple[Key, StepsToAccuracy]]:
    """Yield the law up to a factor for each model whose noise scale was measured.

    Args:
        noise_scale: the table of that name.
    """
    for key, rows in _by_key(noise_scale):
        points = [point for _, point in rows.groupby("step")]
        noise, signal = (np.array([point[name] for point in points]) for name in _NOISE)
        yield key, steps_by_noise(noise, signal)


def find_steps(
    epochs: pd.DataFrame, cells: pd.DataFrame, noise_scale: pd.DataFrame
) -> list[KnownSteps]:
    """Return what is known by noise scales, then what is known by runs.

    Args:
        epochs: the table of that name.
        cells: the table of that name.
        noise_scale: the table of that name.
    """
    known = [KnownSteps(key, BY_NOISE, "measured", law) for key, law in find_noise(noise_scale)]
    for key, runs in find_runs(epochs, cells):
        try:
            known.append(KnownSteps(key, BY_EPOCHS, "fitted", fit_steps(runs)))
        except NotEnoughRunsError as error:
            known.append(KnownSteps(key, BY_EPOCHS, "fitted", None, str(error)))
    return known


def steps_row(steps: KnownSteps) -> dict[str, object]:
    """Return a row of `steps_to_accuracy`; without a target, steps are known up to a factor."""
    key, basis, kind, law, missing = steps
    low, high = law.critical_batch_interval if law else (np.nan, np.nan)
    return dict(zip(KEY, key, strict=True)) | {
        "basis": basis,
        "kind": kind,
        "target": law.target if law and law.target else np.nan,
        "minimum_steps": law.minimum_steps if law and law.target else np.nan,
        "critical_batch": law.critical_batch if law else np.nan,
        "critical_batch_low": low,
        "critical_batch_high": high,
        "missing": missing,
    }


def steps_by_noise(noise: ArrayLike, signal: ArrayLike) -> StepsToAccuracy:
    """Return the law up to a factor, from the gradient noise scale B_simple = tr Σ/|G|² for B_c.

    B_c is the median over the points of a training. Draws take points, and at each of them groups
    of batches, anew: they spread as far as that median would with other points. Steps are relative
    to those of a batch of one example.

    Args:
        noise: tr Σ of each point and group, (points, groups); see `nodewise.results.noise_scale`.
        signal: |G|², likewise; estimates may be below 0.
    """
    both = np.stack([np.asarray(noise, np.float64), np.asarray(signal, np.float64)])
    _, points, groups = both.shape
    rng = np.random.default_rng(_SEED)
    taken = rng.integers(points, size=(DRAWS, points, 1))
    drawn = both[:, taken, rng.integers(groups, size=(DRAWS, points, groups))]
    share = np.median(_signal_share(*drawn.mean(axis=-1)), axis=-1)
    best = float(np.median(_signal_share(*both.mean(axis=-1))))
    return StepsToAccuracy(best, 1 - best, np.column_stack([share, 1 - share]))


def _by_key(table: pd.DataFrame) -> Iterator[tuple[Key, pd.DataFrame]]:
    for (model, dataset, origin), rows in table.groupby([*KEY]):
        yield (str(model), str(dataset), str(origin)), rows


def _signal_share(noise: Floats, signal: Floats) -> Floats:
    """Return 1/(1 + B): S_min in steps of a batch of one. Finite also where B is not."""
    signal, noise = np.maximum(signal, 0.0), np.maximum(noise, 0.0)
    together = signal + noise
    return np.divide(signal, together, out=np.ones_like(together), where=together > 0)


def _critical(steps: ArrayLike, examples: ArrayLike) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.asarray(examples, np.float64) / np.asarray(steps, np.float64))


def _global_batch(run: pd.DataFrame) -> int:
    return int(run["batch_per_worker"].iloc[0] * run["nodes"].iloc[0])


def _steps_at(run: pd.DataFrame, target: float) -> float:
    """Return the steps after which a run reaches `target`; NaN if it was not seen to get there.

    The accuracy of an epoch is a mean over it, and so one of its middle; between middles it is
    interpolated. A first epoch that is above the target already does not tell when it got there.
    """
    accuracy = run["accuracy"].to_numpy(np.float64)
    steps = run["steps"].to_numpy(np.float64)
    middle = np.cumsum(steps) - steps / 2
    above = np.flatnonzero(accuracy >= target)
    if not len(above) or above[0] == 0:
        return np.nan
    around = slice(above[0] - 1, above[0] + 1)
    return float(np.interp(target, accuracy[around], middle[around]))


def _missing(tried: Floats, seen: Floats, target: float) -> str:
    """Say what would be needed to fit the law."""
    if not len(tried):
        return "no run of whole epochs: measure two or more global batches"
    batches = ", ".join(f"{batch:g}" for batch in tried)
    if len(tried) == 1:
        return f"whole epochs at one global batch only ({batches}): measure another one as well"
    reached = f"only {seen[0]:g}" if len(seen) else "none of them"
    return (
        f"of the global batches {batches} {reached} was seen to come up to an accuracy of "
        f"{target:.3f} between two epochs: choose another accuracy or measure more epochs"
    )

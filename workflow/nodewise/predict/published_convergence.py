"""Laws of the examples to a target, of real models: MLPerf's reference convergence points.

The points are in `data/published/convergence/reference_points.csv`: what the runs of a reference
implementation needed to a benchmark's target at several global batches, with hyperparameters tuned
for each.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from nodewise.core.errors import UserError
from nodewise.predict.steps_to_accuracy import StepsToAccuracy, by_noise, fit_counted
from nodewise.results import published
from nodewise.results.csv_file import parse_number
from nodewise.results.tables import build_tables

_FEW_BATCHES = 4  # least number of batches that say how learning rates grow

Counts = tuple[tuple[float, float], ...]
"""Global batches, and the examples that a training with each needed to its target."""


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


def law_of(converges_like: str | None, counts: Counts = ()) -> StepsToAccuracy | None:
    """Return the law of a training; None if nothing is known of it.

    Args:
        converges_like: a published benchmark or a file of `nodewise measure-noise-scale`, which
            give the critical batch. Default: it follows from the counts.
        counts: the user's own counts, which give the level. Default: as many examples as the
            benchmark needs.

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
        raise UserError(
            f"--converges-like {converges_like}: gives no level; add --samples-to-target"
        )
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

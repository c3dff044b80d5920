"""Measure how many 90 % intervals contain the truth, and how wide they are.

The target is 85–95 % of 500 synthetic truths. Each truth is a law with random coefficients,
measured on a few nodes with noise. Its law is fitted and then predicts the true step time on 8, 16
and 64 nodes, at one of the measured batches and at one that was not measured. The same seed gives
the same table.

Some curves have no jitter or no excess input. On two nodes, communication takes from a twentieth of
the time of computing to three times that time, and up to half of it is latency.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from nodewise.predict.fit import fit, interval_of
from nodewise.predict.law import LAWS, Law
from nodewise.predict.points import Floats, Points

TRUTHS, SEED, DRAWS = 500, 1, 400
GROUPS = {
    "asked on": ["asked"],
    "law": ["law"],
    "measured on nodes": ["nodes", "parts"],
    "batches": ["batches", "parts"],
    "noise": ["noise", "parts"],
    "misfit": ["misfit", "parts"],
}
TRUE_LAWS = [
    LAWS.make(text)
    for text in (
        *("ring", "ring"),  # twice, because most clusters use it
        *("tree", "tree", "star"),
        *("averaging(period=4)", "compressed(density=0.02)", "server"),
    )
]
NODES = ((1, 2, 3), (1, 2, 4), (1, 2, 3, 4), (1, 2, 4, 8))
BATCHES = ((64,), (32, 64, 128, 256))
NOISE = (0.02, 0.04, 0.08)
MISFITS = (0.0, 0.0, 0.0, 0.02)
ASKED = (8, 16, 64)
TYPICAL, UNMEASURED = 64, 96  # batches, in examples, that predictions are for

_PART_FLOOR = 0.01  # standard deviation of a part near 0, as a share of the step


@dataclass(frozen=True)
class Design:
    """What is measured, and how precisely.

    Attributes:
        nodes: the numbers of nodes; each is measured with each batch.
        batches: the batches per worker.
        parts: whether the parts of a step are measured, too.
        noise: the relative standard deviation of a time.
        misfit: the relative standard deviation of what the law does not describe; it is the same
            for all batches on a number of nodes.
    """

    nodes: tuple[int, ...]
    batches: tuple[int, ...]
    parts: bool
    noise: float
    misfit: float


@dataclass(frozen=True)
class Truth:
    """A law with its true coefficients.

    Attributes:
        law: the law.
        values: the value of each coefficient.
        deviations: the relative deviation from the line of compute, by batch.
        payload: the bytes of one gradient.
    """

    law: Law
    values: dict[str, float]
    deviations: dict[int, float]
    payload: float

    def seconds(self, points: Points) -> dict[str, Floats]:
        """Return the true times of a step and of its parts, in seconds, at points."""
        line = self.values["compute_fixed_s"] + self.values["compute_per_example_s"] * points.batch
        off = np.array([self.deviations[int(b)] for b in points.batch]) * line
        fixed = self.values["compute_fixed_s"] + off
        return self.law.seconds(self.values | {"compute_fixed_s": fixed}, points)


def random_design(rng: np.random.Generator) -> Design:
    """Return a random design; all combinations are equally likely."""
    return Design(
        NODES[rng.integers(len(NODES))],
        BATCHES[rng.integers(len(BATCHES))],
        bool(rng.integers(2)),
        NOISE[rng.integers(len(NOISE))],
        MISFITS[rng.integers(len(MISFITS))],
    )


def random_truth(rng: np.random.Generator, law: Law, batches: tuple[int, ...]) -> Truth:
    """Return a law with random coefficients, and with random deviations of `batches`."""
    compute = 0.05 * np.exp(rng.normal())
    fixed = rng.uniform(0.05, 0.5) * compute
    per_example = (compute - fixed) / TYPICAL
    payload = 10 ** rng.uniform(5, 8.5)
    values = dict.fromkeys((p.name for p in law.parameters), 0.0)
    values["compute_fixed_s"] = fixed
    values["compute_per_example_s"] = per_example
    if "jitter_s" in values:
        values["jitter_s"] = rng.integers(2) * rng.uniform(0, 0.05) * compute
        values["jitter_share"] = rng.integers(2) * rng.uniform(0, 0.1)
    values["input_per_example_s"] = (rng.random() < 0.2) * rng.uniform(0, 0.1) * per_example
    exchange = compute * np.exp(rng.uniform(np.log(0.05), np.log(3)))
    latency = rng.uniform(0, 0.5)
    for name, share in (("latency_s", latency), ("seconds_per_byte", 1 - latency)):
        only = dict.fromkeys(values, 0.0) | {name: 1.0}
        alone = law.seconds(only, Points.of(2, 1, payload))["communicate"]
        values[name] = share * exchange / float(alone)
    if "codec_seconds_per_byte" in values:
        values["codec_seconds_per_byte"] = rng.uniform(0, 0.2) * compute / payload
    if "service_s" in values:
        values["service_s"] = rng.uniform(0, 0.2) * exchange
    deviations = {b: rng.normal(0, 0.03) for b in batches}
    return Truth(law, values, deviations, payload)


def measure(rng: np.random.Generator, truth: Truth, design: Design) -> Points:
    """Return the points of a design, measured with its noise."""
    nodes, batch = (a.ravel() for a in np.meshgrid(design.nodes, design.batches))
    exact = truth.seconds(Points.of(nodes, batch, truth.payload))
    misfit = dict(zip(design.nodes, rng.normal(0, design.misfit, len(design.nodes)), strict=True))
    off = np.exp([misfit[n] for n in nodes])

    def noisy(seconds: Floats) -> Floats:
        return np.asarray(seconds * off * np.exp(design.noise * rng.standard_normal(len(nodes))))

    step = noisy(exact["step"])
    parts = {}
    if design.parts:
        for part in ("compute", "wait", "communicate"):
            floor = _PART_FLOOR * step * rng.standard_normal(len(nodes))
            parts[f"{part}_s"] = np.maximum(noisy(exact[part]) + floor, 0.0)
    return Points.of(nodes, batch, truth.payload, step, **parts)


@dataclass(frozen=True)
class Trial:
    """A law with its true coefficients, and the points that were measured."""

    truth: Truth
    design: Design
    points: Points


def trial(seed: int, number: int) -> Trial:
    """Return the trial of a number; the laws in `TRUE_LAWS` alternate."""
    rng = np.random.default_rng([seed, number])
    design = random_design(rng)
    truth = random_truth(rng, TRUE_LAWS[number % len(TRUE_LAWS)], (*design.batches, UNMEASURED))
    return Trial(truth, design, measure(rng, truth, design))


def ask(trial: Trial, law: Law, batch: int, draws: int) -> list[dict[str, Any]]:
    """Fit a law to a trial's points, and compare its predictions with the truth.

    Returns:
        One row per number of nodes in `ASKED`. `width` (of the interval) and `error` are relative
        to the true step time. `above` and `below` say that the true step time is above or below
        the interval.
    """
    fitted = fit(law, trial.points, draws=draws)
    at = Points.of(ASKED, batch, trial.truth.payload)
    exact = trial.truth.seconds(at)["step"]
    design = trial.design
    about = {
        "law": trial.truth.law.name,
        "answer": law.name,
        "nodes": ",".join(map(str, design.nodes)),
        "batches": len(design.batches),
        "parts": design.parts,
        "noise": design.noise,
        "misfit": design.misfit,
    }
    drawn = fitted.draw(at)
    told = zip(ASKED, drawn[0], *interval_of(drawn), exact, strict=True)
    return [
        {
            **about,
            "asked": nodes,
            "covered": low <= true <= high,
            "above": true > high,
            "below": true < low,
            "width": (high - low) / true,
            "error": abs(value / true - 1),
        }
        for nodes, value, low, high, true in told
    ]


def trials() -> pd.DataFrame:
    """Return one row per truth, number of nodes asked and batch asked."""
    rows = []
    for number in range(TRUTHS):
        one = trial(SEED, number)
        for batch in (TYPICAL, UNMEASURED):
            known = batch in one.design.batches
            rows += [
                {"batch": "measured" if known else "new", **row}
                for row in ask(one, one.truth.law, batch, DRAWS)
            ]
    return pd.DataFrame(rows)


def summary(rows: pd.DataFrame, by: list[str]) -> str:
    """Return a table with, per group, the coverage, widths and errors of the intervals."""
    grouped = rows.groupby(by)
    table = pd.DataFrame(
        {
            "intervals": grouped.size(),
            "covered": grouped["covered"].mean(),
            "above": grouped["above"].mean(),
            "below": grouped["below"].mean(),
            "median width": grouped["width"].median(),
            "median error": grouped["error"].median(),
            "p90 error": grouped["error"].quantile(0.9),
        }
    )
    return table.round(3).to_string()


def main() -> None:
    rows = trials()
    print(summary(rows, ["batch"]), end="\n\n")
    own = rows[rows["batch"] == "measured"]
    for title, by in GROUPS.items():
        print(f"by {title}:\n{summary(own, by)}\n")


if __name__ == "__main__":
    main()

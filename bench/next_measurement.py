"""Compare how many measurements `nodewise next` and doubling need to find a good number of devices.

Each published curve with at least four points stands for a machine on which the curve's numbers of
devices can be measured. Both methods begin with the two smallest. Doubling continues to the next
number until a measurement is slower than the one before, or there are no more numbers, and chooses
the fastest one measured. `next` measures the numbers it recommends until no measurement is worth
its cost, and chooses the number that is fastest on average over its draws. It knows only the
published curves of other publishers. A number is good if its time per example is within 10 % of the
best of the curve.

Takes a minute. `--write` also writes `data/published/curves/next_measurements.csv`, which the site
shows.

python bench/next_measurement.py [--write]
"""

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from nodewise.core.intervals import DEVIATIONS
from nodewise.core.progress import progress
from nodewise.predict.next_measurement import SETUP_S, STEPS, best_measurement, losses_of
from nodewise.predict.similar_curves import (
    NOISE,
    PUBLISHED,
    Line,
    SimilarCurves,
    line_of,
    read_published,
)
from nodewise.results.curves import Curve
from nodewise.results.importers import import_curves

NEXT = PUBLISHED.with_name("next_measurements.csv")
LEAST_POINTS, FIRST, GOOD = 4, 2, 0.10


def double(whole: Line) -> tuple[int, int]:
    """Return the index of the point that doubling chooses, and its number of measurements."""
    speed = whole.efficiency + np.log(whole.devices)
    for at in range(1, len(whole.devices)):
        if speed[at] < speed[at - 1]:
            return at - 1, at + 1
    return len(whole.devices) - 1, len(whole.devices)


def follow(curve: Curve, whole: Line, similar: SimilarCurves) -> tuple[int, int]:
    """Return the index of the point that `next` chooses, and its number of measurements."""
    points = sorted(curve.measured, key=lambda point: point.nodes)
    batch = np.array([point.batch_per_worker for point in points])
    known = list(range(FIRST))
    while True:
        drawn = similar.draw(whole.at(known), whole.devices, whole.hosts)[1:]
        step_s = batch / np.exp(drawn)
        example_s = step_s / (whole.devices * batch)
        once_s = STEPS * step_s if curve.in_seconds else example_s
        best = best_measurement(
            whole.devices,
            example_s,
            whole.devices * (SETUP_S + np.median(once_s, axis=0)) / 60,
            known=whole.devices[known].astype(int).tolist(),
            noise=NOISE / DEVIATIONS,
        )
        if best is None:
            return int(np.argmin(losses_of(example_s).mean(axis=0))), len(known)
        known = sorted([*known, int(np.searchsorted(whole.devices, best["nodes"]))])


def compare(curve: Curve, whole: Line, similar: SimilarCurves) -> dict[str, Any]:
    """Return a row of `next_measurements.csv`."""
    speed = whole.efficiency + np.log(whole.devices)
    row: dict[str, Any] = {
        "curve": curve.name,
        "publisher": curve.publisher,
        "points": len(whole.devices),
    }
    for way, (at, measured) in (
        ("doubling", double(whole)),
        ("next", follow(curve, whole, similar)),
    ):
        loss = float(np.expm1(speed.max() - speed[at]))
        row |= {
            f"{way}_measured": measured,
            f"{way}_devices": int(whole.devices[at]),
            f"{way}_loss": loss,
            f"{way}_good": loss <= GOOD,
        }
    return row


def compare_all(curves: Sequence[Curve]) -> pd.DataFrame:
    """Return a row for each curve with enough points."""
    rows = []
    scaled = [(curve, whole) for curve in curves if (whole := line_of(curve)) is not None]
    publishers = dict.fromkeys(curve.publisher for curve, _ in scaled)
    with progress("publishers", len(publishers)) as show:
        for number, publisher in enumerate(publishers, 1):
            similar = SimilarCurves(c for c in read_published() if c.publisher != publisher)
            rows += [
                compare(curve, whole, similar)
                for curve, whole in scaled
                if curve.publisher == publisher and len(whole.devices) >= LEAST_POINTS
            ]
            show(number)
    return pd.DataFrame(rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="bench/next_measurement.py", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--write", action="store_true", help=f"also write {NEXT.name}")
    arguments = parser.parse_args()
    rows = compare_all(import_curves(PUBLISHED).curves)
    if arguments.write:
        rows.to_csv(NEXT, index=False, float_format="%.4g", lineterminator="\n")
    print(f"{len(rows)} curves of {rows['publisher'].nunique()} publishers")
    for way in ("doubling", "next"):
        measured, good = rows[f"{way}_measured"], rows[f"{way}_good"]
        loss = rows[f"{way}_loss"]
        print(
            f"{way}: {measured.mean():.2f} measurements, {good.mean():.1%} within {GOOD:.0%} of "
            f"the best, loss {loss.mean():.1%} on average, {loss.quantile(0.9):.1%} at the 90th"
        )
    saved = rows["doubling_measured"] - rows["next_measured"]
    print(f"fewer {(saved > 0).mean():.1%}, as many {(saved == 0).mean():.1%} of the curves")


if __name__ == "__main__":
    main()

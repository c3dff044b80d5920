"""Time the fit of 100 curves of five points (target: under 1 s), one by one and as one cluster."""

import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from nodewise.predict.fit import fit, interval_of
from nodewise.predict.laws.collectives import RingAllReduce
from nodewise.predict.points import Points

CURVES, NODES, RUNS = 100, (1, 2, 3, 4, 8), 5
TRUTH = {
    "compute_fixed_s": 0.01,
    "compute_per_example_s": 1e-3,
    "jitter_s": 0.0,
    "jitter_share": 0.02,
    "input_per_example_s": 0.0,
    "latency_s": 2e-4,
    "seconds_per_byte": 1e-8,
    "hidden_share": 0.0,
}


def curves() -> list[Points]:
    """Return curves of a synthetic ring, each with its own payload and 4 % noise."""
    rng = np.random.default_rng(1)
    found = []
    for i in range(CURVES):
        payload = 10 ** rng.uniform(6, 8)
        step_s = RingAllReduce().evaluate(TRUTH, NODES, 64, payload)
        step_s = step_s * np.exp(0.04 * rng.standard_normal(len(NODES)))
        found.append(Points.of(NODES, 64, payload, step_s, model=f"{i}", link=f"{i}"))
    return found


def one_cluster(points: list[Points]) -> Points:
    """Return all curves joined, as curves of one cluster."""
    names = ("nodes", "batch", "payload", "step_s")
    axes = [np.concatenate([getattr(p, name) for p in points]) for name in names]
    return Points.of(*axes, model=np.concatenate([p.model for p in points]), link="one")


def fit_each(law: RingAllReduce, points: list[Points], draws: int) -> None:
    for each in points:
        fit(law, each, draws=draws)


def timed(title: str, job: Callable[[], object]) -> None:
    seconds = []
    for _ in range(RUNS):
        began = time.perf_counter()
        job()
        seconds.append(time.perf_counter() - began)
    ends = f"({min(seconds):.2f} to {max(seconds):.2f})"
    print(f"{title:44} median {statistics.median(seconds):.2f} s  {ends}")


def main() -> None:
    alone = curves()
    together = one_cluster(alone)
    law = RingAllReduce()
    for draws in (0, 400):
        timed(f"{CURVES} curves, each alone, {draws} draws", partial(fit_each, law, alone, draws))
        timed(
            f"{CURVES} curves of one cluster, {draws} draws",
            partial(fit, law, together, draws=draws),
        )
    at = Points.of(np.arange(1, 65), 64, 1e7, model="0", link="0")
    fitted = fit(law, alone[0])
    timed("64 numbers of nodes with intervals", lambda: interval_of(fitted.draw(at)))


if __name__ == "__main__":
    main()

"""The Bayesian fit, beside the quick one. What needs NumPyro runs where the extra is installed."""

import importlib.util
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

from nodewise.errors import UserError
from nodewise.overhead import bayes
from nodewise.overhead.fit import Points, fit
from nodewise.overhead.formulas import At, RingAllReduce

NODES = [1, 2, 3, 4]
PAYLOAD = 5e6
TRUTH = dict.fromkeys((p.name for p in RingAllReduce.parameters), 0.0) | {
    "compute_fixed_s": 0.01,
    "compute_per_example_s": 5e-4,
    "jitter_share": 0.05,
    "latency_s": 5e-4,
    "seconds_per_byte": 1 / 60e6,
}
ASKED = At.of([8, 16], 64, PAYLOAD)

needs_extra = pytest.mark.skipif(
    importlib.util.find_spec("numpyro") is None,
    reason="NumPyro is not installed: make bayes",
)


def measured():
    exact = RingAllReduce().evaluate(TRUTH, NODES, 64, PAYLOAD)
    noise = np.exp(0.03 * np.random.default_rng(1).standard_normal(len(NODES)))
    return Points.of(NODES, 64, PAYLOAD, exact * noise)


@pytest.mark.parametrize("missing", ["jax", "numpyro"])
def test_without_the_extra_one_line_says_how_to_get_it(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, "jax", sys)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(UserError, match=rf"{missing}.*make bayes"):
        bayes.fit(RingAllReduce(), measured())


def test_without_points_there_is_nothing_to_fit():
    points = measured()
    with pytest.raises(ValueError, match="nothing to fit"):
        bayes.fit(RingAllReduce(), points.where(points.nodes > 9))


def sampled(known):
    """Return a fit of its own process: JAX has threads, and others here fork."""
    bayes._WARM_UP, bayes._KEPT = 300, 200  # enough for four points, and quicker
    return bayes.fit(RingAllReduce(), measured(), priors=known, draws=100)


@needs_extra
def test_it_agrees_with_the_quick_fit_and_keeps_what_is_known_beforehand():
    law, known = RingAllReduce(), {("latency_s", ""): (5e-4, 1e-5)}
    quick = fit(law, measured(), priors=known)
    with ProcessPoolExecutor(1, get_context("spawn")) as elsewhere:
        full = elsewhere.submit(sampled, known).result()
    assert full.coefficients == quick.coefficients
    assert full.draws.shape == (100, len(full.coefficients))
    assert full.r_hat.shape == full.values.shape
    assert full.r_hat.max() < 1.1
    assert full.divergences <= 5
    assert full.value("latency_s", "") == pytest.approx(5e-4, rel=0.05)
    true = law.evaluate(TRUTH, ASKED.nodes, ASKED.batch, ASKED.payload)
    low, high = full.evaluate_interval(ASKED)
    assert (low < true).all() and (true < high).all()
    assert full.evaluate(ASKED) == pytest.approx(quick.evaluate(ASKED), rel=0.4)

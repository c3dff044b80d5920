"""The Bayesian fit, beside the quick one. What needs NumPyro runs where the extra is installed."""

import importlib.util
import json
import subprocess
import sys

import numpy as np
import pytest

from nodewise.core.errors import UserError
from nodewise.predict import bayes
from nodewise.predict.fit import fit
from nodewise.predict.law import At
from nodewise.predict.laws.ring import RingAllReduce
from nodewise.predict.points import Points

pytestmark = pytest.mark.slow

NODES = [1, 2, 3, 4]
PAYLOAD = 5e6
TRUTH = dict.fromkeys((p.name for p in RingAllReduce.parameters), 0.0) | {
    "compute_fixed_s": 0.01,
    "compute_per_example_s": 5e-4,
    "jitter_share": 0.05,
    "latency_s": 5e-4,
    "seconds_per_byte": 1 / 60e6,
}
KNOWN = {("latency_s", ""): (5e-4, 1e-5)}
ASKED = At.of([8, 16], 64, PAYLOAD)

needs_extra = pytest.mark.skipif(
    importlib.util.find_spec("numpyro") is None,
    reason="NumPyro is not installed: make bayes",
)


def measured():
    exact = RingAllReduce().evaluate(TRUTH, NODES, 64, PAYLOAD)
    noise = np.exp(0.03 * np.random.default_rng(2).standard_normal(len(NODES)))
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


@needs_extra
def test_it_agrees_with_the_quick_fit_and_keeps_what_is_known_beforehand():
    """In a process of its own: JAX has threads, and other tests fork."""
    quick = fit(RingAllReduce(), measured(), priors=KNOWN)
    done = subprocess.run([sys.executable, __file__], check=True, capture_output=True, text=True)
    full = json.loads(done.stdout)
    assert full["coefficients"] == [list(coefficient) for coefficient in quick.coefficients]
    assert full["shapes"] == [[400, len(quick.coefficients)], [len(quick.coefficients)]]
    assert full["r_hat"] < 1.02
    assert full["divergences"] <= 5
    assert full["latency_s"] == pytest.approx(5e-4, rel=0.05)
    true = RingAllReduce().evaluate(TRUTH, ASKED.nodes, ASKED.batch, ASKED.payload)
    assert (full["low"] < true).all() and (true < full["high"]).all()
    assert full["step_s"] == pytest.approx(quick.evaluate(ASKED), rel=0.4)


def sample():
    """Print what a sampled fit finds."""
    bayes._WARM_UP, bayes._KEPT, bayes._MOST = 250, 300, 900  # enough for four points, and quicker
    full = bayes.fit(RingAllReduce(), measured(), priors=KNOWN, draws=400)
    low, high = full.evaluate_interval(ASKED)
    found = {
        "coefficients": full.coefficients,
        "shapes": [full.draws.shape, full.r_hat.shape],
        "r_hat": full.r_hat.max(),
        "divergences": full.divergences,
        "latency_s": full.value("latency_s", ""),
        "low": low.tolist(),
        "high": high.tolist(),
        "step_s": full.evaluate(ASKED).tolist(),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    sample()

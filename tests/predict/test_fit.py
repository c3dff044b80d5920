"""fit() finds what the points determine and reports what they leave open."""

import doctest
import importlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from law_times import step_s
from mistakes import user_error
from nodewise.predict.fit import Prior, fit, interval_of
from nodewise.predict.law import LAWS
from nodewise.predict.points import Points

TRUTH = dict.fromkeys((p.name for p in LAWS["ring"].parameters), 0.0)
TRUTH |= {"compute_fixed_s": 0.005, "compute_per_example_s": 2e-4}
TRUTH |= {"latency_s": 3e-4, "seconds_per_byte": 1 / 58e6, "turns_share": 1.0}
PAYLOAD = 5e6


def points(nodes=(1, 2, 3, 4), batches=(32, 128, 512), law=None, noise=0.0, seed=0, **values):
    """Return points that follow the true law, each with its own error."""
    law = law or LAWS["ring"]
    n, b = (axis.ravel().astype(float) for axis in np.meshgrid(nodes, batches))
    chance = np.exp(noise * np.random.default_rng(seed).standard_normal(n.shape))
    return Points.of(n, b, PAYLOAD, step_s(law, TRUTH | values, n, b, PAYLOAD) * chance)


def together(one, two, **labels):
    """Return the points of both; a label is a pair of the values of `one` and of `two`."""
    labels = {name: np.repeat(pair, [len(one), len(two)]) for name, pair in labels.items()}
    axes = ("nodes", "batch", "payload", "step_s")
    return Points.of(*(np.append(getattr(one, x), getattr(two, x)) for x in axes), **labels)


def ask(fitted, nodes, batch, payload=PAYLOAD, **labels):
    return fitted.draw(Points.of(nodes, batch, payload, **labels))[0]


def truth(nodes, batch, law=None, **values):
    return step_s(law or LAWS["ring"], TRUTH | values, nodes, batch, PAYLOAD)


@pytest.mark.parametrize("module", [""])
def test_examples_in_docstrings_say_what_comes_out(module):
    done = doctest.testmod(importlib.import_module(f"nodewise.predict{module}"))
    assert done.attempted and not done.failed


def test_a_known_truth_is_found():
    fitted = fit(LAWS["ring"], points())
    asked = [1, 8, 16]
    assert ask(fitted, asked, 128) == pytest.approx(truth(asked, 128), rel=0.01)
    values = dict(zip(fitted.coefficients, fitted.draws[0], strict=True))
    assert values["seconds_per_byte", ""] == pytest.approx(1 / 58e6, rel=0.03)
    assert values["compute_per_example_s", ""] == pytest.approx(2e-4, rel=0.03)


@given(compute=st.floats(1e-5, 1e-2), bandwidth=st.floats(1e6, 1e9), batch=st.integers(1, 1024))
def test_where_the_range_was_measured_a_fit_says_what_was_measured(compute, bandwidth, batch):
    values = {"compute_per_example_s": compute, "seconds_per_byte": 1 / bandwidth}
    measured = points(nodes=(1, 2, 4, 8), batches=(batch, 2 * batch), **values)
    fitted = fit(LAWS["ring"], measured, draws=0)
    assert fitted.draw(measured)[0] == pytest.approx(measured.step_s, rel=0.03)
    assert (fitted.draws >= 0).all()


def test_latency_and_bandwidth_are_shared_by_the_models_of_a_link():
    small, large = points(batches=(64,)), points(nodes=(1,), batches=(64,), compute_fixed_s=0.5)
    fitted = fit(LAWS["ring"], together(small, large, model=("small", "large")))
    assert ask(fitted, [4], 64, model="large") == pytest.approx(
        truth([4], 64, compute_fixed_s=0.5), rel=0.02
    )


def test_parts_that_were_measured_tell_what_totals_do_not():
    law, at = LAWS["ring"], Points.of([2.0], 64, PAYLOAD)
    values = TRUTH | {"latency_s": 0.02}
    seconds = law.seconds(values, at)
    total = Points.of([2.0], 64, PAYLOAD, seconds["step"])
    apart = {"compute_s": seconds["compute"], "communicate_s": seconds["communicate"]}
    parts = replace(total, wait_s=np.zeros(1), **apart)
    one_node = float(truth([1], 64, latency_s=0.02)[0])
    assert ask(fit(law, parts), [1], 64)[0] == pytest.approx(one_node, rel=0.1)
    low, high = interval_of(fit(law, total).draw(Points.of([1], 64, PAYLOAD)))
    assert high[0] - low[0] > one_node


def test_a_curve_that_obeys_another_law_does_not_pull_the_others_along():
    odd = points(batches=(1024,), law=LAWS["star"])
    fair = points(batches=(16, 32, 64, 128, 256, 512), noise=0.01)
    odd = replace(odd, step_s=1.5 * odd.step_s)
    fitted = fit(LAWS["ring"], together(fair, odd, model=("fair", "odd")))
    assert ask(fitted, [8], 64, model="fair") == pytest.approx(truth([8], 64), rel=0.1)


def test_what_is_not_identified_is_said():
    def certain(fitted, name):
        return fitted.certain[fitted.coefficients.index((name, ""))]

    one_batch = fit(LAWS["ring"], points(nodes=(1, 2), batches=(64,)))
    # With one batch, the fixed and the variable part of compute cannot be told apart.
    assert not certain(one_batch, "compute_fixed_s")
    several = fit(LAWS["ring"], points(nodes=(1, 2, 4, 8)))
    assert certain(several, "compute_per_example_s")
    without_draws = fit(LAWS["ring"], points(), draws=0)
    assert len(without_draws.draws) == 1 and not any(without_draws.certain)
    assert np.isnan(interval_of(without_draws.draw(Points.of([1, 2, 3], 64, PAYLOAD)))).all()


def test_what_is_known_beforehand_counts_and_no_coefficient_is_below_its_bound():
    beta, bound = ("seconds_per_byte", ""), 1.2 / 58e6
    alone = points(nodes=(1,), batches=(64,))
    fitted = fit(LAWS["ring"], alone, priors={beta: Prior(1 / 58e6, 1 / 58e8)})
    at = fitted.coefficients.index(beta)
    assert fitted.draws[0, at] == pytest.approx(1 / 58e6, rel=0.01)
    fitted = fit(LAWS["ring"], points(), priors={beta: Prior(1 / 58e6, 1 / 58e7, bound)})
    assert (fitted.draws[:, at] >= bound).all()


@pytest.mark.filterwarnings("ignore:(overflow|invalid):RuntimeWarning")
def test_times_for_which_no_fit_is_finite_are_named():
    for times in ([1e308, 5e307], [1.0, 0.0], [1.0, np.nan]):
        points = Points.of([1, 2], 64, PAYLOAD, times, model=["mine", "mine"])
        assert user_error(fit, LAWS["ring"], points).startswith("curve mine: no fit was found")

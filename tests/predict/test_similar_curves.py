"""Predictions from similar published curves are right in easy cases and never absurd."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodewise.predict.fit import with_interval
from nodewise.predict.similar_curves import Line, SimilarCurves, read_published
from nodewise.results.importers.curve_csv import publisher_of


@cache
def published():
    return SimilarCurves(read_published())


def curve(efficiency, strong=False, per_host=4):
    devices = 2.0 ** np.arange(len(efficiency))
    return Line(devices, np.ceil(devices / per_host), np.log(efficiency), strong)


def ask(points, devices, per_host=4):
    asked = np.array([devices], float)
    return with_interval(published().draw(points, asked, np.ceil(asked / per_host)))[:, 0]


@given(
    st.lists(st.floats(0.05, 1.3), min_size=1, max_size=6),
    st.booleans(),
    st.integers(1, 2000),
    st.floats(1e-6, 1e6),
)
@settings(max_examples=60, deadline=None)
def test_intervals_hold_the_value_and_nothing_depends_on_units(shares, strong, devices, unit):
    value, low, high = ask(curve(shares, strong), devices)
    assert np.isfinite([value, low, high]).all()
    assert low < value < high
    scaled = ask(curve(np.array(shares) * unit, strong), devices)
    assert np.array(scaled) == pytest.approx(np.log(unit) + np.array([value, low, high]), abs=1e-6)


@given(st.lists(st.floats(0.3, 1.0), min_size=2, max_size=5), st.booleans())
@settings(max_examples=30, deadline=None)
def test_intervals_widen_with_the_distance(shares, strong):
    points = curve(shares, strong, per_host=1)
    widths = [np.ptp(ask(points, points.devices[-1] * far, 1)) for far in (2, 4, 16, 256)]
    assert widths == sorted(widths)


def test_measured_points_are_kept_and_perfect_curves_continue():
    points = curve([1.0, 0.98, 0.95])
    assert ask(points, 2)[0] == pytest.approx(np.log(0.98))
    assert np.log(0.98) > ask(points, 3)[0] > np.log(0.95)
    rising = curve([1.0, 0.6, 0.7, 0.75])
    assert ask(rising, 64)[0] <= np.log(0.75)
    amdahl = curve([1.0, 1 / 1.1], strong=True)
    assert np.exp(ask(amdahl, 4)[0]) == pytest.approx(1 / 1.3, rel=0.1)


def test_the_table_of_published_curves_is_read():
    assert len(read_published()) == 221
    assert len({curve.publisher for curve in read_published()}) == 34
    address = "https://github.com/mlcommons/training_results_v2.0/tree/main/Dell/results"
    assert publisher_of(address) == "dell"


def test_the_second_device_of_a_machine_brings_all_of_a_rings_exchange_at_once():
    ring = 1 / (1 + 0.4 * (1 - 1 / np.array([1.0, 2.0])))
    last_slope = 2 * np.log(ring[-1])
    assert ask(curve(ring), 4)[0] > last_slope + 0.03

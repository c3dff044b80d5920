"""Forecasts on real clusters: the formula, its intervals, and what further points change."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from nodewise.predict.cluster_links import constants, read_link
from nodewise.predict.cluster_steps import Draws, Topology, Training, forecast_throughputs

CLUSTER = Topology(8, read_link("within", "nvlink2"), read_link("between", "100gbit-rdma"))
RESNET = Training(25.6e6, (4.0,), 64)
DEVICES = [2, 4, 8, 16, 64]


def forecast(cluster, training, measured, *asked):
    return forecast_throughputs(cluster, replace(training, measured=measured), *asked)


def width(draws):
    low, high = np.quantile(draws[1:], [0.05, 0.95], axis=0)
    return high / low


def test_the_formula_adds_what_each_level_sends():
    means = dict.fromkeys(("contention_within", "contention_between"), 0.0)
    means |= dict.fromkeys(("devices_differ", "nodes_differ", "hidden"), -50.0)
    means |= dict.fromkeys(("latency_within", "latency_between"), -50.0)
    means |= {"nvlink": np.log(0.5), "rdma": np.log(0.25)}
    clusters = constants()["clusters"].items()
    exact = {name: (means.get(name, mean), 0.0) for name, (mean, _) in clusters}
    known = dict(constants()) | {"clusters": exact, "noise": 1e-9}
    found = forecast(CLUSTER, RESNET, {1: 640.0}, [2, 8, 16], known)
    size, step = 4 * 25.6e6, 0.1
    within = 2 * (7 / 8) * size / (0.5 * 150e9)
    expected = [step + size / (0.5 * 150e9), step + within, step + within + size / (0.25 * 12.5e9)]
    assert np.allclose(found, 64 * np.array([2, 8, 16]) / np.array(expected))


def test_no_rate_exceeds_the_link():
    tcp = Topology(1, None, read_link("between", "1gbit-tcp"))
    draws = Draws(tcp, Training(25.6e6, hidden=0.0))
    assert draws.steps_s(np.full_like(draws.batch, 1e-9), 2).min() >= 4 * 25.6e6 / 125e6


def test_what_is_fixed_does_not_take_longer_in_a_long_step():
    draws = Draws(CLUSTER, RESNET)
    for step_s in (0.01, 100.0):
        one, half = (draws.steps_s(np.full_like(draws.batch, step_s), 1, x) for x in (1.0, 0.5))
        fixed_s = 2 * half - one
        assert fixed_s == pytest.approx(
            np.minimum(step_s * expit(draws.constants["batch_fixed"]), 0.1)
        )


@pytest.mark.parametrize(
    ("name", "contention", "contend"),
    [
        ("nvlink2", "within", True),
        ("pcie5", "within", True),
        ("nvlink3", "within", False),
        ("nvlink5", "within", False),
        ("pcie4-no-p2p", "no_p2p", True),
        ("pcie4-no-p2p", "within", False),
    ],
)
def test_devices_contend_unless_switches_connect_them(name, contention, contend):
    def sent_s(exponent):
        clusters = constants()["clusters"] | {f"contention_{contention}": (exponent, 0.0)}
        cluster = Topology(8, read_link("within", name), None)
        draws = Draws(cluster, RESNET, dict(constants()) | {"clusters": clusters})
        return draws.parts((8, 1))[1][0, 0]

    assert sent_s(1.0) == pytest.approx(sent_s(0.0) * (4 if contend else 1))


@pytest.mark.parametrize("point", [8, 16])
def test_a_further_point_draws_the_forecast_near_and_narrows_it(point):
    one = forecast(CLUSTER, RESNET, {1: 640.0}, DEVICES)
    told = dict(zip(DEVICES, one[0], strict=True))
    slower = 0.8 * told[point]
    two = forecast(CLUSTER, RESNET, {1: 640.0, point: slower}, DEVICES)
    at = DEVICES.index(point)
    assert two[0, at] == pytest.approx(slower, rel=0.05)
    assert width(two)[at] < width(one)[at]
    assert (two[0] <= 1.02 * one[0]).all()


def test_what_is_unknown_widens_the_interval():
    unknown = Topology(8, read_link("within", "unknown"), read_link("between", "100gbit"))
    mixed = Training(25.6e6, (2.0, 4.0), None)
    narrow = width(forecast(CLUSTER, RESNET, {1: 640.0}, DEVICES))
    wide = width(forecast(unknown, mixed, {1: 640.0}, DEVICES))
    assert (wide > 1.2 * narrow).all()

"""Coefficients that are fitted to the committed records respect what is known of their links."""

import numpy as np
import pandas as pd
import pytest

from nodewise.cluster.kinds.emulated import Emulated, Link, Node, SlowNode
from nodewise.predict.known_links import link_of

FEW_PERCENT = 1.035
MESSAGES_S = 1.5e-3  # software per message, above the configured latency


@pytest.fixture(scope="module")
def emulated() -> pd.DataFrame:
    """Return the coefficients of emulated links, with what is configured."""
    fits = pd.read_parquet("tests/golden/fits.parquet")
    points = pd.read_parquet("tests/golden/curve_points.parquet")
    clusters = points.drop_duplicates("link").set_index("link")["cluster"]
    rows = fits.assign(configured=fits["link"].map(clusters).fillna("").map(link_of))
    return rows.dropna(subset="configured")


def test_no_fitted_bandwidth_exceeds_its_link(emulated):
    rows = emulated[emulated["parameter"] == "seconds_per_byte"]
    configured = np.array([link.rate_bit_s for link in rows["configured"]])
    assert len(rows) > 50
    assert (8 / rows["value"] <= FEW_PERCENT * configured).all()
    assert (8 / rows["low"] <= FEW_PERCENT * configured).all()


def test_no_fitted_latency_is_far_above_what_is_configured(emulated):
    rows = emulated[emulated["parameter"].isin(["latency_s", "inside_latency_s"])]
    configured = np.array([link.latency_s for link in rows["configured"]])
    assert (rows["value"] <= configured + MESSAGES_S).all()


@pytest.mark.parametrize(
    ("cluster", "rate", "latency_s"),
    [
        (Emulated(), 500e6, 0),
        (Emulated(node=Node(cpu=0.4), link=Link(rate_mbit=200)), 500e6, 0),
        (Emulated(node=Node(cpu=0.5), link=Link(rate_mbit=250.5, latency_ms=3)), 501e6, 1.5e-3),
        (Emulated(slow_node=SlowNode(cpu=0.1)), 500e6, 0),
        (Emulated(devices_per_node=2), 500e6, 0),
    ],
)
def test_the_link_is_read_from_the_label_of_its_cluster(cluster, rate, latency_s):
    assert link_of(cluster.label) == pytest.approx((rate, latency_s))


def test_what_is_not_emulated_has_no_configured_link():
    assert link_of("local") is None

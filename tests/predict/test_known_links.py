"""Coefficients that are fitted to the committed records respect what is known of their links."""

import pandas as pd
import pytest

FEW_PERCENT = 1.035
MESSAGES_S = 1.5e-3  # software per message, above the configured latency


@pytest.fixture(scope="module")
def emulated() -> pd.DataFrame:
    """Return the coefficients of emulated links, with what is configured."""
    fits = pd.read_parquet("tests/golden/fits.parquet")
    points = pd.read_parquet("tests/golden/curve_points.parquet").dropna(subset="rate_mbit")
    configured = ["link", "cpu_share", "rate_mbit", "latency_ms"]
    return fits.merge(points[configured].drop_duplicates(), "inner", "link")


def test_no_fitted_bandwidth_exceeds_its_link(emulated):
    rows = emulated[emulated["parameter"] == "seconds_per_byte"]
    bit_s = 1e6 * rows["rate_mbit"] / rows["cpu_share"]
    assert len(rows) > 50
    assert (8 / rows["value"] <= FEW_PERCENT * bit_s).all()
    assert (8 / rows["low"] <= FEW_PERCENT * bit_s).all()


def test_no_fitted_latency_is_far_above_what_is_configured(emulated):
    rows = emulated[emulated["parameter"].isin(["latency_s", "inside_latency_s"])]
    configured = rows["latency_ms"] / 1e3 * rows["cpu_share"]
    assert (rows["value"] <= configured + MESSAGES_S).all()

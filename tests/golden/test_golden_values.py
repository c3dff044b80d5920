"""Tables, fits and data are unchanged; golden_values.py explains how to renew them."""

import json

import golden_values as golden
import numpy as np
import pandas as pd
import pytest

from nodewise.results.columns import COLUMNS

pytestmark = pytest.mark.timeout(240)  # Reading all committed records takes long.

CLOSE = {"rtol": 1e-6, "atol": 1e-9}
# Processors round differently, and a fit ends where a step no longer improves it.
FITTED = {"rtol": 1e-2, "atol": 2e-3}


@pytest.mark.parametrize("name", COLUMNS)
def test_the_tables_of_the_committed_records_are_unchanged(name):
    expected = pd.read_parquet(golden.FOLDER / f"{name}.parquet")
    pd.testing.assert_frame_equal(golden.tables()[name], expected, check_dtype=False, **CLOSE)


@pytest.mark.parametrize("name", golden.FITS)
def test_the_fits_of_the_committed_records_are_unchanged(name):
    expected = pd.read_parquet(golden.FOLDER / f"{name}.parquet")
    pd.testing.assert_frame_equal(golden.fits()[name], expected, check_dtype=False, **FITTED)


def test_synthetic_pictures_are_unchanged():
    made = golden.pictures()
    with np.load(golden.PICTURES) as expected:
        assert set(expected.files) == set(made)
        for kind in expected.files:
            difference = np.abs(made[kind].astype(int) - expected[kind].astype(int))
            assert difference.max() <= 1  # Processors round some pixels to the next level.
            assert (difference > 0).mean() < 0.01


def test_labels_tokens_shards_and_batches_are_unchanged():
    assert golden.integers() == json.loads(golden.INTEGERS.read_text())

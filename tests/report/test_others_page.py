"""The page on published curves lists every curve with its source, and all rules."""

import importlib

import pandas as pd
import pytest

from nodewise.predict.published_accuracy import levels, read_next, read_predicted
from nodewise.predict.similar_curves import PUBLISHED, read_published
from nodewise.report.pages.others import pages
from nodewise.results.importers import import_curves


def test_every_published_curve_is_listed_with_its_source_and_what_was_predicted():
    (page,) = pages(None)
    rows = page.context["curves"]
    assert len(rows) == len(read_published())
    assert all(row["source_url"].startswith("https://") for row in rows)
    assert len(page.context["levels"].rows) == len(levels(read_predicted()))
    found = levels(read_predicted())
    assert found["median"].idxmin() == found["mean of log"].idxmin() == "ours"


def test_predictions_of_publishers_left_out_reach_their_levels():
    rows = read_predicted()
    ours = levels(rows).loc["ours"]
    assert ours["median"] <= 6.9
    assert ours["mean of log"] <= 15.8
    assert ours["p90"] <= 45
    assert ours["width"] == levels(rows)["width"].min()
    assert 0.85 <= rows["covered"].mean() <= 0.95


@pytest.mark.slow
def test_the_tables_of_the_page_are_what_their_scripts_make(monkeypatch):
    monkeypatch.syspath_prepend("bench")
    made = importlib.import_module("corpus").predict_all()
    pd.testing.assert_frame_equal(
        made.drop(columns="groups"), read_predicted(), rtol=1e-3, atol=1e-4
    )
    curves = import_curves(PUBLISHED).curves
    followed = importlib.import_module("next_measurement").compare_all(curves)
    assert (followed["next_measured"] == read_next()["next_measured"]).mean() > 0.95
    assert followed["doubling_measured"].tolist() == read_next()["doubling_measured"].tolist()


def test_following_next_needs_fewer_measurements_than_doubling_and_misses_no_more():
    found = read_next().mean(numeric_only=True)
    assert found["next_measured"] < found["doubling_measured"]
    assert found["next_good"] >= found["doubling_good"]
    (page,) = pages(None)
    assert len(page.context["next"]["table"].rows) == len(("doubling", "next"))

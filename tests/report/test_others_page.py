"""The page on published curves: every curve is there with its source, and so are all rules."""

from nodewise.predict.published_accuracy import RULES, levels, read_next, read_predicted
from nodewise.predict.published_curves import read_published
from nodewise.report.pages.others import pages


def test_every_published_curve_is_listed_with_its_source_and_what_was_predicted():
    (page,) = pages(None)
    rows = page.context["curves"]
    assert len(rows) == len(read_published())
    assert all(row["source_url"].startswith("https://") for row in rows)
    assert len(page.context["levels"].rows) == 1 + len(RULES)
    found = levels(read_predicted())
    assert found["median"].idxmin() == found["mean of log"].idxmin() == "ours"


def test_following_next_needs_fewer_measurements_than_doubling_and_misses_no_more():
    found = read_next().mean(numeric_only=True)
    assert found["next_measured"] < found["doubling_measured"]
    assert found["next_good"] >= found["doubling_good"]
    (page,) = pages(None)
    assert len(page.context["next"]["table"].rows) == len(("doubling", "next"))

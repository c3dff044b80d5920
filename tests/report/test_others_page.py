"""The page on published curves: every curve is there with its source, and so are all rules."""

from nodewise.predict.published_accuracy import RULES, levels, read_predicted
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

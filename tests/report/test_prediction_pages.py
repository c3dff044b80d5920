"""The pages of the fits give answers first, then what the answers are based on."""

import re

import pytest

from nodewise.core.errors import UserError
from nodewise.predict import fit_queries
from nodewise.predict.study import read_overhead
from nodewise.results.importers import import_for_study
from rendering import Texts


def text_of(study, page):
    text = Texts((study / "docs" / page).read_text()).text
    return re.sub(r"\s+", " ", text)


def test_the_answers_come_first_and_are_those_of_the_table(study):
    page = text_of(study, "predictions.md")
    optima = read_overhead(study / "overhead")["optima"]
    said = [answer for answer in optima["answer"] if answer and answer in page]
    assert len(said) >= 3  # for measured and for published curves
    assert page.index(said[0]) < page.index("How it is calculated")


def test_there_is_a_page_for_each_source_and_each_curve_and_they_are_linked(study):
    fits = read_overhead(study / "overhead")["predictions"]
    pages = list((study / "docs" / "predictions").glob("*.md"))
    assert len(pages) == fits["source"].nunique()
    for source in fits["source"].unique():
        assert (
            f'href="predictions/{source}.html"' in (study / "docs" / "predictions.md").read_text()
        )
        text = (study / "docs" / f"predictions/{source}.md").read_text()
        linked = set(re.findall(r'href="\.\./(curves/[^"]+)\.html"', text))
        assert linked and all((study / "docs" / f"{page}.md").is_file() for page in linked)


def test_a_source_has_the_errors_of_every_law_for_every_line(study):
    trials = read_overhead(study / "overhead")["trials"]
    errors = fit_queries.held_out(trials)
    errors = errors[errors["source"] == "published"]
    assert len(errors)
    html = (study / "docs/predictions/published.md").read_text()
    for error in errors["error"]:
        assert f'<data value="{error:.6g}">' in html


def test_a_curve_has_its_coefficients_units_and_what_bounds_each_point(study):
    fits = read_overhead(study / "overhead")["fits"]
    page = text_of(study, "curves/fashion-cnn/multi-worker-mirrored.md")
    assert "β: inverse bandwidth" in page and "per MB fitted" in page
    own = fits[(fits["curve"].str.contains("fashion_cnn")) & (fits["source"] == "published")]
    html = (study / "docs/curves/fashion-cnn/multi-worker-mirrored.md").read_text()
    for value in own.loc[own["unit"] == "s", "value"]:
        assert f'<data value="{value:.6g}">' in html
    assert "bandwidth-bound" in page and "compute-bound" in page


def test_curves_that_others_measured_are_fitted_judged_and_shown(study):
    fitted = read_overhead(study / "overhead")
    assert (fitted["judgement"]["source"] == "imported").any()
    fits = fitted["fits"][fitted["fits"]["source"] == "imported"]
    assert set(fits.loc[fits["parameter"] == "seconds_per_byte", "unit"]) == {"s per gradient"}
    assert "Their cluster · imported" in text_of(study, "predictions/imported.md")
    assert "per gradient" in text_of(study, "curves/their-cluster/imported.md")
    assert re.search(r"\d+\s% on \d+ nodes is \w+", text_of(study, "predictions/imported.md"))


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("a,2,64.5,0.1", "mine.csv: curve 'a': "),
        ("a,2,64,0.1", "theirs.csv: curve 'a': "),
    ],
)
def test_curves_that_do_not_fit_into_a_study_are_refused(tmp_path, text, wrong):
    paths = [tmp_path / "mine.csv", tmp_path / "theirs.csv"]
    for path in paths:
        path.write_text(f"curve,nodes,batch_per_worker,step_time_s\n{text}\n")
    with pytest.raises(UserError, match=wrong):
        import_for_study(paths)

"""The pages of the fits give answers first, then what the answers are based on."""

import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

import make_records as make
from nodewise.core.errors import UserError
from nodewise.core.units import write_number
from nodewise.predict import fit_queries
from nodewise.predict.judge import EACH
from nodewise.predict.law import LAWS
from nodewise.predict.study import read_overhead
from nodewise.report.pages.predictions import _beaten
from nodewise.results import published
from nodewise.results.importers import import_for_study
from rendering import Texts, draw_all, render


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fits")
    theirs = folder / "theirs.csv"
    lines = [f"Their cluster,{n},64,{0.1 + 0.02 * (n - 1)}" for n in (1, 2, 3, 4)]
    theirs.write_text("\n".join(["curve,nodes,batch_per_worker,step_time_s", *lines]))
    imported = import_for_study([theirs])
    make.write_study(folder, make.grid(batches=(64, 512)), published.ntua(), imported=imported)
    draw_all(folder)
    render(folder)
    return folder


def text_of(study, page):
    text = Texts((study / "docs" / page).read_text()).text
    return re.sub(r"\s+", " ", text)


def test_the_answers_come_first_and_are_those_of_the_table(study):
    page = text_of(study, "predictions.md")
    optima = read_overhead(study / "overhead")["optima"]
    said = [answer for answer in optima["answer"] if answer and answer in page]
    assert len(said) >= 6  # for measured and for published curves
    assert page.index(said[0]) < page.index("How it is calculated")


def test_every_answer_says_whether_it_is_fitted_or_predicted(study):
    html = (study / "docs" / "predictions.md").read_text()
    answers = re.findall(r"<li>(.*?)</li>", html)
    assert answers
    assert all("nw-kind--fitted" in one or "nw-kind--predicted" in one for one in answers)


def test_an_answer_says_from_which_nodes_it_is_and_how_far_off_the_formula_is_there(study):
    page = text_of(study, "predictions.md")
    ours, theirs, _ = page.split("Fitted to the points on ")[1:]
    assert ours.startswith("1 and 2 nodes. On these the formula is off by")
    assert "With so few numbers of nodes" in ours and "These nodes are processes of one" in ours
    assert theirs.startswith("1, 2 and 3 nodes. On these the formula is off by")
    assert "With so few numbers of nodes" not in theirs and "processes of one" not in theirs


def test_every_law_is_judged_beside_the_baselines_with_its_coverage(study):
    page = text_of(study, "predictions.md")
    judged = page[page.index("How wrong were the formulas?") :]
    titles = ("Amdahl", "Ernest")
    for title in ("the strategy's own formula", *titles):
        assert title in judged
    for head in ("Median error", "Mean error", "Worst error", "Inside the 90 % interval"):
        assert head in judged


def test_the_errors_are_summed_up_before_their_table(study):
    judged = read_overhead(study / "overhead")["judgement"]
    page = text_of(study, "predictions.md").replace("\u00a0", " ")
    each = judged[(judged["source"] == "published") & (judged["scenario"] == EACH)]
    own, others = each[each["own"]].iloc[0], each[~each["own"]]
    best = others.loc[others["median_error"].idxmin()]
    off, least = (write_number(row["median_error"], "share") for row in (own, best))
    assert (
        f"Published results: on {own['points']} points whose node counts were left out in turn, "
        f"the strategy's own formula is off by {off} predicted in the median; the best baseline, "
        f"{LAWS[best['law']].title}, by {least} predicted." in page
    )
    assert f"{write_number(own['covered'], 'share')} predicted of the points lie inside" in page


@pytest.mark.parametrize(("least", "told"), [(0.0, "In 1 of the "), (9.0, "In none of the ")])
def test_groups_in_which_a_baseline_is_better_are_counted_and_named(least, told):
    row = {"source": "emulated", "scenario": "largest", "trained": "1, 2 → 3", "points": 1}
    rows = [("own", True, 0.5), ("ernest", False, least), ("amdahl", False, 9.0)]
    judged = [row | {"law": law, "own": own, "median_error": error} for law, own, error in rows]
    alone = row | {"scenario": "whole", "law": "own", "own": True, "median_error": 1.0}
    beaten = _beaten(pd.DataFrame([*judged, alone]))
    assert beaten["groups"] == 1
    assert [one["baseline"]["title"] for one in beaten["found"]] == ["Ernest"] * told.count("1")


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
    page = text_of(study, "predictions/published.md")
    largest = page[page.index("Errors on the largest") : page.index("Errors with each")]
    errors = fit_queries.held_out(trials)
    errors = errors[errors["source"] == "published"]
    assert len(errors) == 12
    html = (study / "docs/predictions/published.md").read_text()
    for error in errors["error"]:
        assert f'<data value="{error:.6g}">' in html
    assert largest.count("Fashion CNN") == 5


def test_a_curve_has_its_coefficients_units_and_what_bounds_each_point(study):
    fits = read_overhead(study / "overhead")["fits"]
    page = text_of(study, "curves/fashion-cnn/multi-worker-mirrored.md")
    assert "β: inverse bandwidth" in page and "per MB fitted" in page
    own = fits[(fits["curve"].str.contains("fashion_cnn")) & (fits["source"] == "published")]
    html = (study / "docs/curves/fashion-cnn/multi-worker-mirrored.md").read_text()
    for value in own.loc[own["unit"] == "s", "value"]:
        assert f'<data value="{value:.6g}">' in html
    assert "bandwidth-bound" in page and "compute-bound" in page


@pytest.mark.slow
@pytest.mark.parametrize(("by_epochs", "told"), [(250, "5.00× fitted for Fashion CNN"), (90, "")])
def test_two_critical_batches_that_are_far_apart_are_told(study, tmp_path, by_epochs, told):
    folder = Path(shutil.copytree(study, tmp_path / "study"))
    path = folder / "overhead" / "steps_to_accuracy.csv"
    key = {"model": "fashion_cnn", "dataset": "fashion_mnist", "data_origin": "mirror"}
    known = [("noise scale", "measured", 50), ("whole epochs", "fitted", by_epochs)]
    rows = [key | {"basis": basis, "kind": kind, "critical_batch": b} for basis, kind, b in known]
    columns = pd.read_csv(path).columns
    pd.DataFrame(rows, columns=columns).to_csv(path, index=False)
    render(folder)
    page = text_of(folder, "predictions.md")
    assert "Fewer steps from a larger batch" in page
    assert ("The two estimates differ." in page) == bool(told)
    assert told in page


def test_a_page_keeps_markup_of_its_own_apart_from_text(study):
    for page in (study / "docs" / "predictions").glob("*.md"):
        assert "<data" not in Texts(page.read_text()).text, page.name


def test_figure_28_is_done_again_with_a_verdict_on_each_claim(study):
    page = text_of(study, "studies/ntua.md")
    part = page[page.index("Figure 28") : page.index("Table II")]
    savings = read_overhead(study / "overhead")["savings"]
    mean = savings[savings["model"] == ""].set_index("nodes")
    holds = mean.loc[6, "low"] <= 0.67 <= mean.loc[6, "high"]
    assert "67.0\u00a0% published".replace("\u00a0", " ") in part
    assert ("lies inside that interval" in part) == holds
    assert ("lies outside that interval" in part) != holds
    shorter = 1 - (1 - mean.loc[10, "saved"]) / (1 - mean.loc[9, "saved"])
    html = (study / "docs/studies/ntua.md").read_text()
    assert f'<data value="{shorter:.6g}">' in html
    assert shorter > 0.05 and "by that the claim does not hold" in part
    for model in ("BERT-base", "ResNet50", "DenseNet121", "CIFAR-10 CNN", "Fashion CNN"):
        assert model in part


def test_without_a_fit_the_pages_say_so(tmp_path):
    make.write_study(tmp_path, [])
    (tmp_path / "records").mkdir(exist_ok=True)
    docs = render(tmp_path)
    assert "No curve has enough points yet" in (docs / "predictions.md").read_text()
    assert not (docs / "predictions").exists()


def test_curves_that_others_measured_are_fitted_judged_and_shown(study):
    fitted = read_overhead(study / "overhead")
    assert (fitted["judgement"]["source"] == "imported").any()
    fits = fitted["fits"][fitted["fits"]["source"] == "imported"]
    assert set(fits.loc[fits["parameter"] == "seconds_per_byte", "unit"]) == {"s per gradient"}
    assert "Their cluster · imported" in text_of(study, "predictions/imported.md")
    assert "per gradient" in text_of(study, "curves/their-cluster/imported.md")


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

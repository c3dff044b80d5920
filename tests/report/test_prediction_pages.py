"""The pages of the fits give answers first, then what the answers are based on."""

import re

import pandas as pd
import pytest

from mistakes import user_error
from nodewise.core.units import write_percent
from nodewise.predict.study import EACH, judge
from nodewise.report.context import read_context
from nodewise.report.fitted_curves import answers, fitted_curves
from nodewise.results.columns import FIT_COLUMNS
from nodewise.results.table_files import read_tables
from nodewise.results.tables import build_tables
from rendering import CONFIG, Texts


def text_of(study, page):
    text = Texts((study / "docs" / page).read_text()).text
    return re.sub(r"\s+", " ", text)


def optima(speedups, *, runs=()):
    """Return rows of `optima` of one batch: speed-ups with their interval, by number of nodes."""
    nodes = sorted(speedups)
    rows = pd.DataFrame({"nodes": nodes, "batch_per_worker": 64.0, "job": "epoch"})
    ends = pd.DataFrame([speedups[n] for n in nodes], columns=["speedup_low", "s", "speedup_high"])
    rows = rows.join(ends.rename(columns={"s": "speedup"}))
    rows = rows.assign(time=100 / rows["speedup"])
    rows["cost"] = rows["time"] * rows["nodes"]
    runs = pd.DataFrame(runs, columns=["nodes", "time"]).assign(batch_per_worker=64.0, job="run")
    return pd.concat([rows, runs])


ONE, ALIKE, SLOWER = (1, 1, 1), (0.9, 1.2, 1.4), (0.4, 0.5, 0.6)


@pytest.mark.parametrize(
    ("speedups", "verdict", "pays", "between"),
    [
        ({1: ONE, 2: SLOWER, 64: (0.2, 0.3, 0.9)}, "one", None, (1, 1)),
        ({1: ONE, 2: ALIKE, 64: (0.8, 2, 9)}, "unknown", 2, (1, 64)),
        ({1: ONE, 2: ALIKE, 64: (3, 6, 9)}, "always", 2, (64, 64)),
        ({1: ONE, 2: (1, 1.3, 1.5), 4: SLOWER, 8: ALIKE, 64: (3, 6, 9)}, "more", 8, (64, 64)),
        ({1: ONE, 2: SLOWER, 8: ALIKE, 64: (3, 6, 9)}, "more", 8, (64, 64)),
        ({1: ONE, 4: (2, 2.5, 3), 8: (1.8, 2.2, 2.6), 64: (1, 1, 1)}, "some", 4, (4, 8)),
    ],
)
def test_the_intervals_of_speed_ups_decide_the_verdict(speedups, verdict, pays, between):
    (answer,) = answers(optima(speedups), 2)
    assert (answer["verdict"], answer["pays"]) == (verdict, pays)
    assert (answer["least"], answer["most"]) == between


def test_speed_up_price_and_time_to_accuracy_are_those_on_the_most_measured_nodes():
    """Three nodes were measured, of which the table has no row, so that of two is shown."""
    rows = optima({1: ONE, 2: (1.5, 1.6, 1.7), 64: (8, 9, 10)}, runs=[(1, 30.0), (2, 40.0)])
    (answer,) = answers(rows, 3)
    assert (answer["measured"], answer["speedup"]) == (2, 1.6)
    assert answer["price"] == pytest.approx(2 / 1.6)
    assert (answer["run"], answer["run_one"], answer["run_fastest"]) == (40, 30, 1)


def test_every_source_has_its_curves_with_links_and_the_errors_of_the_formulas(study):
    tables = read_tables(study / "fits", FIT_COLUMNS)
    html = (study / "docs/predictions.md").read_text()
    linked = set(re.findall(r'href="(curves/[^"]+)\.html"', html))
    assert linked and all((study / "docs" / f"{page}.md").is_file() for page in linked)
    for source in tables["predictions"]["source"].unique():
        assert f"{{ #{source} }}" in html
    judged = judge(tables["trials"])
    fits = tables["predictions"].query("fitted and source == 'published'").groupby("curve")["error"]
    errors = [*judged["median_error"], fits.agg(lambda error: error.abs().max()).max()]
    assert len(judged) and all(f'<data value="{error:.6g}"' in html for error in errors)
    first = judged[judged["scenario"] == EACH].iloc[0]
    shown = text_of(study, "predictions.md").partition("How wrong were the formulas?")[2]
    assert f"({first['points']} tests" in shown
    for name in ("median_error", "worst_error", "covered"):
        assert write_percent(first[name]).replace("\u00a0", " ") in shown
    context = read_context(CONFIG, study)
    assert any(one["one_machine"] for one in fitted_curves(context).values())
    context.tables["curves"]["cluster"] = "three hosts"
    assert not any(one["one_machine"] for one in fitted_curves(context).values())


def test_curves_that_others_measured_are_fitted_judged_and_shown(study):
    fitted = read_tables(study / "fits", FIT_COLUMNS)
    assert (fitted["trials"]["source"] == "imported").any()
    fits = fitted["fits"][fitted["fits"]["source"] == "imported"]
    assert set(fits.loc[fits["parameter"] == "seconds_per_byte", "unit"]) == {"s per gradient"}
    assert "Their cluster · imported" in text_of(study, "predictions.md")
    assert "As imported: " in text_of(study, "curves/their-cluster/imported.md")
    assert re.search(r"\d+\s% on \d+ nodes is \w+", text_of(study, "predictions.md"))


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("a,2,64.5,0.1", "mine.csv: curve 'a': "),
        ("a,2,64,0.1", "theirs.csv: duplicate curve a "),
    ],
)
def test_curves_that_do_not_fit_into_a_study_are_refused(tmp_path, text, wrong):
    paths = [tmp_path / "mine.csv", tmp_path / "theirs.csv"]
    for path in paths:
        path.write_text(f"curve,nodes,batch_per_worker,step_time_s\n{text}\n")
    assert wrong in user_error(build_tables, [], curve_paths=paths)

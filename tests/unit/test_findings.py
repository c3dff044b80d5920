"""Findings, choosing and the claims: every answer follows from the tables, whatever they hold."""

import re
from html.parser import HTMLParser

import pandas as pd
import pytest

import make_records as make
from nodewise import claims, comparisons
from nodewise.errors import UserError
from nodewise.tables import CURVE_KEY, CURVES, typed
from nodewise.views import read_overhead
from rendering import draw_all, render

NEW = ("findings.md", "choosing.md", "glossary.md")


class Text(HTMLParser):
    """The text of a piece of HTML, and how its elements are called."""

    def __init__(self, html):
        super().__init__()
        self.text, self.tags = "", set()
        self.feed(html)
        self.close()

    def handle_data(self, data):
        self.text += data.replace("\u00a0", " ")

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)


def leads(page):
    """Return the answers of a page, as text."""
    found = re.findall(r'<p class="nw-lead"[^>]*>(.*?)</p>', page.read_text(), flags=re.DOTALL)
    return [Text(answer).text for answer in found]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("findings")
    whole = [make.record(make.cell(n=n, experiment="whole", extent=make.EPOCHS)) for n in (1, 2)]
    tables = make.write_study(folder, [*make.grid(batches=(64, 512)), *whole], make.published())
    draw_all(folder)
    return tables, render(folder)[0]


def test_the_best_speed_up_is_that_of_the_table(study):
    tables, docs = study
    curves = tables["curves"]
    fair = curves[(curves["nodes"] > 1) & (curves["flags"] == "")]
    gains, best = int((fair["speedup"] > 1).sum()), fair[fair["repeats"] > 1]["speedup"].max()
    answer = leads(docs / "findings.md")[0]
    assert answer.startswith(f"In {gains} of {len(fair)} comparisons")
    assert best < fair["speedup"].max()  # which was launched once: the luckiest of many
    assert f"the most of those launched more than once was {best:.2f}× measured" in answer


def test_which_batch_compares_the_smallest_and_the_largest(study):
    tables, docs = study
    rows = comparisons.fair(comparisons.on_several_nodes(tables["curves"]))
    lines = [line for _, line in rows.groupby(["experiment", "line", "nodes"])]
    longest = max(lines, key=len).sort_values("batch_per_worker")
    answer = leads(docs / "findings.md")[1]
    for row in (longest.iloc[0], longest.iloc[-1]):
        assert f"{row['speedup']:.2f}× measured" in answer
        assert f"with {row['batch_per_worker']}" in answer


def test_a_speed_up_has_the_interval_that_its_launches_leave(study):
    rows = comparisons.on_several_nodes(study[0]["curves"])
    told = rows[rows["speedup_low"].notna()]
    assert len(told)
    assert (told["speedup_low"] <= told["speedup"]).all()
    assert (told["speedup"] <= told["speedup_high"]).all()
    once = rows[rows["repeats"] == 1]
    assert len(once)
    assert once["speedup_low"].isna().all()


def test_parts_that_take_far_longer_than_the_step_are_a_caution(study):
    curves = study[0]["curves"]
    assert not comparisons.parts(curves)["flags"].str.contains("far longer").any()
    slow = comparisons.parts(curves.assign(communicate_s=curves["step_time_s"]))
    assert slow["flags"].str.contains("its parts take far longer than the step").all()


def test_points_of_two_runs_are_compared_with_one_node_of_the_same_run(study):
    curves = study[0]["curves"]
    both = curves.assign(old_s=curves["step_time_s"], new_s=2 * curves["step_time_s"])
    faster = both["new_s"].where(both["nodes"] > 1, 10 * both["new_s"])
    rows = comparisons.in_two_runs(
        curves, both.assign(new_s=faster)[[*CURVE_KEY, "old_s", "new_s"]]
    )
    assert len(rows)
    assert (rows["nodes"] > 1).all()
    assert rows["speedup_new"].to_numpy() == pytest.approx(10 * rows["speedup_old"].to_numpy())


def test_the_home_page_has_the_best_speed_up_of_whole_gradients(study):
    tables, docs = study
    rows = comparisons.fair(comparisons.on_several_nodes(tables["curves"]))
    rows = rows[rows["exchange"].isin(("ring", "star"))]
    best = rows[rows["repeats"] > 1]["speedup"].max()
    home = Text((docs / "index.md").read_text()).text
    assert f"{best:.2f}× measured" in home.replace("\n", " ")
    assert " by the launches): the best speed-up" in home


def test_points_with_a_caution_are_counted_and_decide_nothing(study):
    tables, docs = study
    rows = comparisons.on_several_nodes(tables["curves"])
    crowded = int((rows["flags"] != "").sum())
    assert crowded  # three workers, two cores
    told = f"{crowded} of {len(rows)} points have a caution"
    assert told in Text((docs / "findings.md").read_text()).text
    assert not any("on 3 nodes" in answer for answer in leads(docs / "findings.md"))


def test_each_answer_links_the_cells_that_it_rests_on(study):
    page = (study[1] / "findings.md").read_text()
    cells = re.findall(r'href="(cells/[^"]+\.html)"', page)
    assert cells and all((study[1].parent / "cells" / cell).is_file() for cell in cells)


def test_an_answer_that_turns_with_the_tables_is_told_the_other_way(tmp_path):
    make.write_study(tmp_path, [make.record(make.cell(n=n)) for n in (1, 2)])
    assert leads(render(tmp_path)[0] / "findings.md")[0].startswith("In 1 of 1 comparisons")
    path = tmp_path / "tables" / "curves.parquet"
    curves = pd.read_parquet(path)
    speed = curves["examples_per_s"].where(curves["nodes"] == 1, 1.0)
    curves.assign(examples_per_s=speed).to_parquet(path)
    answer = leads(render(tmp_path)[0] / "findings.md")[0]
    assert answer.startswith("In none of 1 comparisons")


def test_trainings_that_went_through_the_same_weights_count_as_one(tmp_path):
    ways = ((1, "single"), (2, "custom_loop"), (2, "mpi"))
    cells = [
        make.cell(experiment="whole", extent=make.EPOCHS, n=n, strategy=way) for n, way in ways
    ]
    make.write_study(tmp_path, [make.record(cell) for cell in cells])
    page = render(tmp_path)[0] / "findings.md"
    (answer,) = [said for said in leads(page) if "our trainings" in said]
    assert "of 1 of our trainings" in answer
    assert "with the same accuracies count as one" in Text(page.read_text()).text


def test_without_a_record_every_question_says_that_nothing_was_measured(tmp_path):
    make.write_study(tmp_path, [])
    docs, _ = render(tmp_path)
    assert leads(docs / "findings.md") == ["Nothing that was measured so far answers this."] * 6
    assert Text((docs / "findings.md").read_text()).text.count("not measured") >= 8
    assert "No strategies were compared yet" in (docs / "choosing.md").read_text()


def test_a_model_with_markup_in_its_name_is_shown_and_is_no_element(tmp_path):
    make.write_study(tmp_path, [make.record(make.cell(n=n)) for n in (1, 2)])
    for name in ("curves", "cells"):
        path = tmp_path / "tables" / f"{name}.parquet"
        pd.read_parquet(path).assign(model="<script>alert(1)</script>").to_parquet(path)
    docs, _ = render(tmp_path)
    for page in NEW:
        shown = Text((docs / page).read_text())
        assert "script" not in shown.tags
    assert "<script>alert(1)</script>" in Text((docs / "findings.md").read_text()).text


# --- what is compared ---


def test_a_way_is_compared_with_one_process_and_not_with_its_own_slow_start():
    curves = make_curves(
        [("single", 1, 1000.0), ("mpi", 1, 100.0), ("mpi", 2, 900.0), ("horovod", 2, 1500.0)]
    )
    rows = comparisons.on_several_nodes(curves).set_index("line")
    assert rows.loc["mpi", "speedup"] == pytest.approx(0.9)
    assert rows.loc["horovod", "speedup"] == pytest.approx(1.5)
    assert rows.loc["horovod", "efficiency"] == pytest.approx(0.75)


def test_without_a_single_process_it_is_the_way_on_one_node():
    rows = comparisons.on_several_nodes(make_curves([("mpi", 1, 100.0), ("mpi", 2, 180.0)]))
    assert rows["speedup"].tolist() == pytest.approx([1.8])


def test_a_caution_about_the_one_node_is_one_about_the_speed_up():
    curves = make_curves([("single", 1, 1000.0), ("mpi", 2, 900.0)])
    curves.loc[curves["nodes"] == 1, "flags"] = "another process ran"
    (told,) = comparisons.on_several_nodes(curves)["flags"]
    assert told == "on one node: another process ran"


def test_devices_of_one_machine_are_not_several_nodes():
    curves = make_curves([("single", 1, 1000.0), ("mirrored", 2, 1900.0)], exchange="devices")
    assert comparisons.on_several_nodes(curves).empty


def make_curves(points, exchange="ring"):
    """Return curves of (strategy, nodes, examples per second)."""
    nothing = {"str": "", "int64": 0, "bool": False, "float64": float("nan"), "Int64": pd.NA}
    empty = {name: nothing[dtype] for name, dtype in CURVES.items()}
    told = {"kind": "measured", "flags": "", "batch_per_worker": 64, "cell_id": "a/cell"}
    rows = [
        told
        | {"strategy": name, "nodes": nodes, "examples_per_s": rate}
        | {"exchange": exchange if nodes > 1 else "none"}
        for name, nodes, rate in points
    ]
    return typed([empty | row for row in rows], CURVES)


# --- claims ---


def judged(margins, near=0.05):
    claim = claims.Claim(study="s", says="a", where="b", decided_by="c", rule="faster", near=near)
    return claims.Judged(claim, pd.DataFrame({"margin": margins}, dtype="float64"))


@pytest.mark.parametrize(
    ("margins", "verdict"),
    [
        ([], "not measured"),
        ([1.02, 0.98], "undecided"),
        ([1.2, 1.01], "agrees"),
        ([0.8, 0.99], "disagrees"),
        ([1.2, 0.8], "mixed"),
        ([float("inf")], "agrees"),
    ],
)
def test_a_verdict_follows_from_the_margins_alone(margins, verdict):
    assert judged(margins).verdict == verdict


def test_every_claim_of_the_project_can_be_judged_by_any_tables(study):
    tables, docs = study
    found = claims.judged(tables, read_overhead(docs.parent / "overhead"))
    assert len(found) == len(claims.read_claims())
    by_rule = {one.claim.rule: one for one in found}
    assert by_rule["more_nodes"].verdict == "not measured"  # three workers are too many there
    assert by_rule["batch_decides"].comparisons["margin"].notna().all()


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.63, 0.68, "agrees"), (0.3, 0.9, "undecided"), (0.7, 0.75, "disagrees")],
)
def test_a_saving_agrees_with_an_interval_that_says_something(low, high, verdict):
    row = {"study": "s", "model": "", "nodes": 6, "saved": 0.66, "low": low, "high": high}
    overhead = {"savings": pd.DataFrame([row | {"kind": "predicted"}])}
    claim = claims.Claim(study="s", says="a", where="b", decided_by="c", rule="saves")
    found = claims._saves({}, overhead, study="s", nodes=6, share=0.67)
    assert claims.Judged(claim, found).verdict == verdict


def learnt(points, **changes):
    """Return curves of whole epochs, of (strategy, nodes, batch, accuracy, speed-up)."""
    curves = make_curves([(name, nodes, 1.0) for name, nodes, *_ in points])
    _, _, batches, accuracies, speedups = zip(*points, strict=True)
    return curves.assign(
        whole_epochs=True,
        study="ntua",
        batch_per_worker=batches,
        train_accuracy=accuracies,
        test_accuracy=accuracies,
        speedup=speedups,
        cell_id=[f"cell/{number}" for number in range(len(points))],
        **changes,
    )


def test_what_several_nodes_cost_is_judged_at_the_best_batch_at_which_they_are_faster():
    points = [
        *(
            ("single", 1, 32, 0.90, 1.0),
            ("single", 1, 64, 0.89, 1.0),
            ("single", 1, 128, 0.88, 1.0),
        ),
        # slower than one node: whatever it learns; the second loses least of the others
        *(("ring", 2, 32, 0.90, 0.9), ("ring", 2, 64, 0.885, 1.2), ("ring", 2, 128, 0.80, 1.7)),
    ]
    curves = learnt(points, flags="the machine's host took 9% of the cores' time")
    cells = curves[["cell_id"]].assign(whole_epochs=True, epochs=5)
    nothing = {
        "published": curves.iloc[:0]
        .drop(columns="train_accuracy")
        .assign(epochs=0, training_accuracy=0.0)
    }
    tables = {"curves": curves, "cells": cells, "published_runs": nothing["published"], **nothing}
    (row,) = claims.RULES["keeps_accuracy"](tables, {}, study="ntua", loss=0.01).to_dict("records")
    assert row["cell_id"] == "cell/4"
    assert row["margin"] == pytest.approx(1 - 0.005 + 0.01)
    assert claims.RULES["keeps_accuracy"](tables, {}, study="asu", loss=0.01).empty


def test_two_ways_learn_as_much_if_one_is_not_far_below_the_other():
    points = [("rare", 2, 32, 0.88, 1.0), ("every", 2, 32, 0.90, 1.0), ("rare", 3, 32, 0.5, 1.0)]
    rule = claims.RULES["as_accurate"]
    found = rule({"curves": learnt(points)}, {}, way="rare", than="every", loss=0.01)
    assert found["margin"].tolist() == pytest.approx([1 - 0.02 + 0.01])
    assert found["value"].tolist() == pytest.approx([0.88 / 0.90])


def test_devices_that_share_their_cores_are_no_scaling():
    curves = learnt([("mirrored", 2, 32, 0.9, 1.4)])
    rule = claims.RULES["below_linear"]
    told = [
        rule({"curves": curves.assign(kind=kind)}, {}, study="ntua", strategy="mirrored")
        for kind in ("measured", "emulated")
    ]
    assert [len(rows) for rows in told] == [1, 0]


def test_faster_is_the_ratio_of_throughputs_on_the_same_nodes():
    curves = make_curves([("mpi", 2, 100.0), ("horovod", 2, 150.0), ("horovod", 3, 10.0)])
    rows = claims.RULES["faster"]({"curves": curves}, {}, way="horovod", than="mpi")
    assert rows["value"].tolist() == pytest.approx([1.5])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("- {study: a}", "required"),
        ("- [", "not YAML"),
        (
            "- {study: a, says: b, where: c, decided_by: d, rule: guess}",
            "unknown rule guess",
        ),
        (
            "- {study: a, says: b, where: c, decided_by: d, rule: faster, settings: {wya: x}}",
            "settings of rule faster: missing a required argument: 'way'",
        ),
        (
            "- {study: a, says: b, where: c, decided_by: d, rule: faster,\n"
            "   settings: {way: mpi, than: single, then: mpi}}",
            "settings of rule faster: got an unexpected keyword argument 'then'",
        ),
    ],
)
def test_a_misfit_claim_is_one_clear_line(tmp_path, text, told):
    path = tmp_path / "claims.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=told):
        claims.read_claims(path)

"""Study pages show printed numbers beside ours and keep the kinds of numbers apart."""

import pandas as pd
import pytest

import make_records as make
from nodewise.results import published, queries
from nodewise.results.tables import build_tables
from rendering import Texts, draw_all, render

STUDY = {"study": "asu", "model": "mnist_cnn", "dataset": "mnist", "experiment": "asu_epochs"}


def records(**changes):
    """Return one record each on one node, on two devices, and of an unpublished strategy."""
    ways = [("single", 1), ("mirrored", 2), ("model_parallel", 2)]
    epochs = make.cell().extent.model_copy(update={"steps": None, "epochs": 2})
    return [
        make.record(make.cell(**(STUDY | {"extent": epochs} | changes), strategy=way, n=nodes))
        for way, nodes in ways
    ]


@pytest.fixture(scope="module")
def docs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studies")
    make.write_study(folder, records(), make.published(), published.runs())
    draw_all(folder)
    return render(folder) / "studies"


@pytest.mark.slow
def test_every_figure_and_table_of_the_ntua_study_is_done_again(tmp_path):
    printed = published.ntua()
    best = printed.sort_values("batch_per_worker").drop_duplicates("model", keep="last")
    cells = [
        make.cell(model=model, dataset=dataset, batch=batch, n=nodes)
        for model, dataset, batch in best[["model", "dataset", "batch_per_worker"]].to_numpy()
        for nodes in (1, 2, 3)
    ]
    make.write_study(tmp_path, [make.record(cell) for cell in cells], printed, published.runs())
    draw_all(tmp_path)
    page = Texts((render(tmp_path) / "studies/ntua.md").read_text()).text
    for number in range(16, 29):
        assert f"igure {number}" in page, number
    assert page.index("CIFAR-10 CNN: figure 16 and figure 17") < page.index("BERT-base: figure 24")
    # from Table I: parameters of the CIFAR-10 CNN
    assert "Table II" in page and "2,396,330" in page
    improvement = pd.read_csv(tmp_path / "charts/ntua-improvement.csv")
    assert improvement["title"].value_counts()["Mean"] == 4  # published and ours, on 2 and 3 nodes


def test_published_runs_are_as_printed():
    runs = published.runs()
    assert runs.groupby("study").size().to_dict() == {"asu": 2, "strategies": 4, "horovod": 3}
    asu = runs[runs["study"] == "asu"].set_index("nodes")
    # the value that the study states
    assert asu.loc[2, "speedup"] / 2 == pytest.approx(0.6963, abs=5e-5)
    assert asu.loc[1, "examples_per_s"] == pytest.approx(60_000 * 30 / 109.47071123)
    horovod = runs[runs["study"] == "horovod"].set_index("nodes")
    # steps of 9, 11 and 13 ms, with the same number of examples on each device
    assert horovod["speedup"].to_dict() == pytest.approx({1: 1, 2: 2 * 9 / 11, 4: 4 * 9 / 13})
    rates = horovod["examples_per_s"]
    # derived from the step time: times of epochs are whole seconds
    assert rates[1] == pytest.approx(128 / 0.009)
    assert (rates / rates[1]).to_dict() == pytest.approx(horovod["speedup"].to_dict())
    fastest = runs[runs["study"] == "strategies"].sort_values("training_time_s").iloc[0]
    assert fastest["strategy"] == "custom_loop"


def test_ours_stand_beside_the_published_training_of_the_same_way(tmp_path):
    tables = build_tables(make.write(records(), tmp_path), None, published_runs=published.runs())
    rows = queries.published_runs_and_ours(tables, "asu").set_index(["strategy", "nodes"])
    assert set(rows.index) == {("single", 1), ("mirrored", 2), ("model_parallel", 2)}
    curves = tables["curves"].set_index(["strategy", "nodes"])
    for at in rows.index:
        assert rows.loc[at, "seconds_ours"] == pytest.approx(30 * curves.loc[at, "epoch_time_s"])
        # Two epochs were measured, the study has thirty.
        assert rows.loc[at, "label"] == "measured step time × steps"
        assert rows.loc[at, "speed_label"] == "measured"
    assert rows.loc[("mirrored", 2), "training_time_s"] == pytest.approx(78.6098, abs=1e-4)
    assert rows["training_time_s"].isna().sum() == 1


def test_a_published_training_without_counterpart_is_kept(tmp_path):
    tables = build_tables(make.write(records(), tmp_path), None, published_runs=published.runs())
    rows = queries.published_runs_and_ours(tables, "horovod")
    assert len(rows) == 3
    assert rows["seconds_ours"].isna().all() and rows["label"].isna().all()


def test_a_study_page_shows_table_scaling_curves_and_energy(docs):
    page = (docs / "asu.md").read_text()
    for heading in ("Theoretical and real scaling", "Training time", "Accuracy", "Energy"):
        assert f"\n## {heading}" in page
    assert "Loss and accuracy by epoch" in page
    text = Texts(page).text
    assert "69.6\xa0% published" in text.replace("\n", " ")
    assert "estimated" in text and "10 watts" in text


@pytest.mark.slow
def test_an_accuracy_is_of_whole_epochs_only(tmp_path):
    steps = make.cell().extent
    make.write_study(tmp_path, records(extent=steps), make.published(), published.runs())
    draw_all(tmp_path)
    page = (render(tmp_path) / "studies" / "asu.md").read_text()
    accuracy = page[page.index("## Accuracy") : page.index("## Energy")]
    assert "0.995" in Texts(accuracy).text  # the printed accuracy
    assert accuracy.count("<data") == 2  # There is no accuracy of ours.


def test_a_study_of_which_nothing_is_measured_says_so(docs):
    assert "Nothing of this study has been measured here yet" in (docs / "horovod.md").read_text()
    assert "Energy" not in (docs / "horovod.md").read_text()


def test_every_study_is_listed_with_what_is_measured_of_it(docs):
    text = Texts((docs / "index.md").read_text()).text
    assert "2 published points, 2 of them timed here" in text
    assert "3 published points, 0 of them timed here" in text


def test_the_survey_has_a_page_of_its_trade_offs(tmp_path):
    survey = {"study": "survey", "model": "fashion_mlp", "experiment": "trade_offs", "n": 2}
    ways = [
        {"strategy": "custom_loop"},
        {"strategy": "parameter_averaging", "options": {"period": 10}},
        {"strategy": "async_sgd", "options": {"bound": 2}},
        {"strategy": "compressed_sgd", "options": {"method": "top_k", "share": 0.02}},
    ]
    make.write_study(tmp_path, [make.record(make.cell(**survey, **way)) for way in ways])
    draw_all(tmp_path)
    docs = render(tmp_path) / "studies"
    text = Texts((docs / "survey.md").read_text()).text
    for said in (
        "every 10 steps",
        "the largest 2\xa0% of the entries",
        "What it says",
    ):
        assert said in text
    assert "survey.html" in (docs / "index.md").read_text()


def test_without_points_of_the_survey_it_has_no_page(docs):
    assert not (docs / "survey.md").exists()

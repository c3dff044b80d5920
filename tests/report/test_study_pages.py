"""Study pages show printed numbers beside ours and keep the kinds of numbers apart."""

import pandas as pd
import pytest

import make_records as make
from nodewise.results import published, queries
from rendering import Texts, render


def test_every_study_has_a_page_with_printed_numbers_beside_ours(study):
    pages = {path.stem: path.read_text() for path in (study / "docs/studies").glob("*.md")}
    assert set(pages) >= {"asu", "horovod", "ntua", "strategies", "survey"}
    for name in ("asu", "ntua", "survey"):
        assert "<figure" in pages[name], name
    tables = {path.stem: pd.read_parquet(path) for path in (study / "tables").glob("*.parquet")}
    rows = queries.published_runs_and_ours(tables, "asu").dropna(subset="training_time_s")
    for seconds in (*rows["training_time_s"], *rows["seconds_ours"]):
        assert f'<data value="{seconds:.6g}">' in pages["asu"]


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
    page = Texts((render(tmp_path) / "studies/ntua.md").read_text()).text
    for number in range(16, 29):
        assert f"igure {number}" in page, number
    assert page.index("CIFAR-10 CNN: figure 16 and figure 17") < page.index("BERT-base: figure 24")
    # from Table I: parameters of the CIFAR-10 CNN
    assert "Table II" in page and "2,396,330" in page
    savings = pd.read_csv(tmp_path / "docs/charts/ntua-savings.csv")
    mean = savings[savings["at"].str.startswith("Mean")]
    assert mean["series"].value_counts()["published"] == 2  # on two and on three nodes


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


def test_ours_stand_beside_the_published_training_of_the_same_way(study):
    tables = {path.stem: pd.read_parquet(path) for path in (study / "tables").glob("*.parquet")}
    rows = queries.published_runs_and_ours(tables, "asu").set_index(["strategy", "nodes"])
    assert set(rows.index) == {("single", 1), ("mirrored", 2), ("model_parallel", 2)}
    curves = tables["curves"].query("experiment == 'asu'").set_index(["strategy", "nodes"])
    for at in rows.index:
        assert rows.loc[at, "seconds_ours"] == pytest.approx(30 * curves.loc[at, "epoch_time_s"])
        # Two epochs were measured, the study has thirty.
        assert rows.loc[at, "label"] == "measured step time × steps"
        assert rows.loc[at, "speed_label"] == "measured"
    assert rows.loc[("mirrored", 2), "training_time_s"] == pytest.approx(78.6098, abs=1e-4)
    assert rows["training_time_s"].isna().sum() == 1


def test_a_published_training_without_counterpart_is_kept(study):
    tables = {path.stem: pd.read_parquet(path) for path in (study / "tables").glob("*.parquet")}
    rows = queries.published_runs_and_ours(tables, "horovod")
    assert len(rows) == 3
    assert rows["seconds_ours"].isna().all() and rows["label"].isna().all()

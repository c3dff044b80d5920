"""Studies are data: their pages show printed numbers beside ours, with verdicts."""

import shutil

import pandas as pd
import pytest
import yaml

import make_records as make
from mistakes import user_error
from nodewise.report import scoreboard as module
from nodewise.report.context import read_context
from nodewise.report.scoreboard import NOT_MEASURED, OTHER, SAME, scoreboard, summary
from nodewise.results import published, queries, studies
from nodewise.results.table_files import read_tables
from nodewise.study.config import read_config
from rendering import CONFIG, Texts, render

CLAIM = {"says": "Two are faster.", "where": "Table I", "compares": "Two ÷ one"}
CLAIM |= {"decided_by": "Above 1.", "value": "throughput", "of": {"study": "sixth"}}
CLAIM |= {"differ": "nodes", "pairs": [[2, 1]], "above": 1}
SIXTH = {
    "order": 6,
    "title": "A sixth <study>",
    "authors": "A. Author",
    "year": "2026",
    "link": "https://example.org/paper",
    "says": "Two nodes are faster.",
    "lead": "Two nodes train {speedup_2} times as fast as one; it printed {printed_2} times.",
    "claims": [CLAIM],
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a copy of the folder of published studies, which is used in its place."""
    copy = shutil.copytree(studies.FOLDER, tmp_path / "published")
    monkeypatch.setattr(studies, "FOLDER", copy)
    return copy


def add(folder, **changes):
    """Add a study that prints the times of single training and of MPI on two nodes."""
    (folder / "sixth").mkdir(exist_ok=True)
    (folder / "sixth/study.yaml").write_text(yaml.safe_dump(SIXTH | changes))
    training = {"model": "fashion_mlp", "dataset": "fashion_mnist", "batch_per_worker": 64}
    training |= {"epochs": 5, "training_examples": 60_000, "training_accuracy": 0.9}
    training |= dict.fromkeys(("step_time_s", "epoch_time_s", "test_accuracy"))
    printed = {name: ["single", "mpi"] for name in ("strategy", "printed_name")}
    printed |= {"nodes": [1, 2], "training_time_s": [100.0, 50.0]}
    pd.DataFrame(printed | training).to_csv(folder / "sixth/trainings.csv", index=False)


def test_a_sixth_study_is_a_folder(folder, tmp_path):
    add(folder)
    about = {"model": ("fashion_mlp",), "study": ("sixth",)}
    records = make.launches(**about, n=(1,)) + make.launches(**about, n=(2,), strategy=("mpi",))
    theirs = published.points(), published.runs()
    curves = make.write_study(tmp_path / "study", records, *theirs)["curves"].set_index("nodes")
    docs = render(tmp_path / "study")
    page = (docs / "studies/sixth.md").read_text()
    speedup = curves.loc[2, "examples_per_s"] / curves.loc[1, "examples_per_s"]
    for number in (speedup, 2.0, 100.0, 50.0):
        assert f'<data value="{number:.6g}">' in page
    text = Texts(page).text
    assert "A. Author, 2026" in text and "https&#58;&#47;&#47;example.org&#47;paper" in page
    assert "Two are faster" in text and "agrees" in text and SAME in text
    assert "<study>" not in page and "A sixth <study>" in text  # escaped
    assert 'href="sixth.html"' in (docs / "studies/index.md").read_text()
    assert "sixth" in studies.names()
    assert "Fashion MLP, MPI" in (docs / "charts/sixth-scoreboard.csv").read_text()


def test_an_experiment_can_name_a_study_that_is_a_folder_and_no_other(folder, tmp_path):
    add(folder)
    study = yaml.safe_load(CONFIG.read_text())
    one = next(iter(study["experiments"].values()))
    for name in ("sixth", "seventh"):
        one["study"] = name
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(study))
    assert read_config(tmp_path / "sixth.yaml")
    said = user_error(read_config, tmp_path / "seventh.yaml")
    assert "'seventh' is not allowed, must be one of asu, horovod" in said


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"claims": [CLAIM | {"value": "guess"}]}, "study.yaml: claims[0].value: "),
        ({"claims": [CLAIM | {"of": {"stduy": "a"}}]}, "unknown column stduy"),
        ({"link": "javascript:alert(1)"}, "study.yaml: link: "),
        ({"authors": ""}, "study.yaml: authors: "),
    ],
)
def test_a_misfit_study_is_one_clear_line(folder, tmp_path, change, told):
    add(folder, **change)
    make.write_study(tmp_path / "study", [make.record(make.cell())])
    assert told in user_error(render, tmp_path / "study")


# --- printed beside ours ---


@pytest.fixture(scope="module")
def rows(study):
    return scoreboard(read_context(CONFIG, study))


def test_a_scoreboard_has_every_printed_number_with_our_time_divided_by_it(study, rows):
    sizes = {"ntua": len(make.published()), "asu": 2, "strategies": 4, "horovod": 3}
    assert rows.groupby("study").size().to_dict() == sizes
    of_time = rows[rows["quantity"] == "time"]
    ratio = of_time["seconds_ours"] / of_time["seconds_published"]
    pd.testing.assert_series_equal(of_time["ratio"], ratio, check_names=False)
    tables = read_tables(study / "tables")
    curves = tables["curves"].query("experiment == 'asu'").set_index(["strategy", "nodes"])
    asu = rows[rows["study"] == "asu"].set_index("nodes")
    epoch_s = curves.loc[("mirrored", 2), "epoch_time_s"]
    assert asu.loc[2, "seconds_ours"] == pytest.approx(30 * epoch_s)
    assert asu.loc[2, "printed"] == pytest.approx(109.4707 / 78.6098, 1e-5)
    assert pd.isna(asu.loc[1, "printed"])  # one device has no speed-up
    assert (rows[rows["study"] == "horovod"]["order"] == NOT_MEASURED).all()


@pytest.mark.parametrize(
    ("ours", "orders", "same"),
    [
        ((10.0, 6.0, 5.0), [SAME] * 3, (1, 3)),
        ((10.0, 6.0, 7.0), [SAME, OTHER, OTHER], (0, 2)),
        ((10.0, 6.0, None), [SAME, SAME, NOT_MEASURED], (0, 1)),
    ],
)
def test_the_order_of_our_times_is_compared_pair_by_pair(monkeypatch, study, ours, orders, same):
    context = read_context(CONFIG, study)
    context.tables["published"] = context.tables["published"].head(3)
    beside = queries.published_and_ours(context.tables).assign(
        seconds_published=[9.0, 8.0, 7.0], seconds_ours=ours
    )
    monkeypatch.setattr(module, "published_and_ours", lambda tables: beside)
    found = scoreboard(context)
    found = found[found["study"] == "ntua"]
    assert found["order"].tolist() == orders
    numbers = summary(found)
    assert (numbers["same_rows"], numbers["same_pairs"]) == same
    assert numbers["printed"] == 3 and numbers["points"] == found["ratio"].notna().sum()


def test_ours_stand_beside_the_published_training_of_the_same_way(study):
    tables = read_tables(study / "tables")
    rows = queries.published_runs_and_ours(tables, "asu").set_index(["strategy", "nodes"])
    assert set(rows.index) == {("single", 1), ("mirrored", 2), ("model_parallel", 2)}
    # Two epochs were measured, the study has thirty.
    assert (rows["label"] == "measured step time × steps").all()
    assert (rows["speed_label"] == "measured").all()
    assert rows["training_time_s"].isna().sum() == 1
    kept = queries.published_runs_and_ours(tables, "horovod")
    assert len(kept) == 3 and kept["seconds_ours"].isna().all()

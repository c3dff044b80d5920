"""What charts and pages show of the tables."""

import pandas as pd
import pytest

import make_records as make
from nodewise import views
from nodewise.errors import UserError
from nodewise.overhead.rows import ALL_POINTS, OVERSUBSCRIBED, PREDICTIONS
from nodewise.tables import build_tables, typed


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    paths = make.write(make.grid(), tmp_path_factory.mktemp("records"))
    return build_tables(paths, make.published())


@pytest.fixture(scope="module")
def empty():
    return build_tables([], None)


def at(rows, **where):
    for name, value in where.items():
        rows = rows[rows[name] == value]
    assert len(rows) == 1
    return rows.iloc[0]


def test_a_line_starts_at_the_single_point(tables):
    lines = views.scaling_lines(tables["curves"])
    assert set(lines["line"]) == {"multi_worker_mirrored"}
    counted = lines.groupby(["experiment", "batch_per_worker"])["nodes"].apply(list)
    assert all(nodes == [1, 2, 3] for nodes in counted)


def test_a_single_point_without_other_strategies_is_its_own_line(tmp_path):
    curves = build_tables(make.write([make.record(make.cell())], tmp_path), None)["curves"]
    assert views.scaling_lines(curves)["line"].tolist() == ["single"]
    assert views.speedups(curves).empty  # one point shows no scaling


def test_steps_are_projected_onto_the_study_and_say_so(tables):
    times = views.training_times(tables)
    projected = at(times, experiment="ntua_steps", batch_per_worker=64, nodes=2)
    curve = at(tables["curves"], experiment="ntua_steps", batch_per_worker=64, nodes=2)
    assert projected["kind"] == "measured step time × steps"
    assert projected["epochs"] == 5
    assert projected["seconds"] == pytest.approx(curve["step_time_s"] * (60_000 // 128) * 5)
    assert projected["low_seconds"] == pytest.approx(curve["epoch_time_low_s"] * 5)


def test_whole_epochs_need_no_projection(tables):
    times = views.training_times(tables)
    whole = at(times, experiment="ntua_epochs", batch_per_worker=512, nodes=2)
    cell = at(tables["cells"], experiment="ntua_epochs", batch_per_worker=512, nodes=2)
    assert whole["kind"] == "measured"
    assert whole["seconds"] == pytest.approx(cell["train_time_s"])


def test_other_numbers_of_epochs_are_projected_and_have_no_accuracy_beside_the_study(tmp_path):
    extent = make.EPOCHS.model_copy(update={"epochs": 2})
    cell = make.cell(experiment="ntua_epochs", batch=512, extent=extent)
    tables = build_tables(make.write([make.record(cell)], tmp_path), make.published())
    times = views.training_times(tables)
    assert at(times, experiment="ntua_epochs")["kind"] == "measured step time × steps"
    assert at(times, experiment="ntua_epochs")["epochs"] == 5
    assert set(views.accuracies(tables)["kind"]) == {"published"}


def test_without_a_published_table_the_time_is_that_of_one_epoch(tmp_path):
    tables = build_tables(make.write([make.record(make.cell())], tmp_path), None)
    times = views.training_times(tables)
    assert times["epochs"].tolist() == [1]
    assert times["seconds"].tolist() == pytest.approx(tables["curves"]["epoch_time_s"].tolist())


def test_generated_data_is_told_by_the_kind(tmp_path):
    record = make.record(make.cell(), origin="generated")
    tables = build_tables(make.write([record], tmp_path), None)
    labels = views.training_times(tables)["kind"].tolist()
    assert labels == ["measured step time × steps, generated data"]


def test_only_whole_epochs_have_an_accuracy(tables):
    ours = views.accuracies(tables).query("kind == 'measured'")
    assert set(ours["experiment"]) == {"ntua_epochs"}
    assert set(ours["batch_per_worker"]) == {256, 512}


def test_every_published_point_stands_beside_ours_with_the_ratio(tables):
    beside = views.beside_published(tables)
    assert len(beside) == len(tables["published"])
    row = at(beside, batch_per_worker=512, nodes=2)
    assert (row["label"], row["accuracy_label"]) == ("measured", "measured")  # not the projection
    assert row["ratio"] == pytest.approx(row["seconds_ours"] / row["seconds_published"])
    assert row["seconds_published"] == 90
    assert at(beside, batch_per_worker=32, nodes=3)["flags"] == "more workers than cores"


def test_published_models_that_we_did_not_measure_stay_in_the_table_but_not_on_our_charts(tables):
    other = make.published().assign(model="bert_base", dataset="movie_reviews")
    both = tables | {"published": pd.concat([tables["published"], other], ignore_index=True)}
    assert views.beside_published(both).groupby("model")["ratio"].count()["bert_base"] == 0
    assert set(views.training_times(both)["model"]) == {"fashion_cnn"}


def test_the_parts_add_up_to_the_split_step(tables):
    parts = views.step_parts(tables["curves"])
    assert set(parts["experiment"]) == {"ntua_steps"}
    total = parts.groupby(["batch_per_worker", "nodes"])["seconds"].sum()
    cells = tables["cells"].groupby(["batch_per_worker", "nodes"])["split_step_s"].median()
    assert total.to_dict() == pytest.approx(cells.reindex(total.index).to_dict(), rel=0.05)


def predictions(fitted, observed, *, batch=64, crowded=()):
    """Return rows of one curve: fitted and observed seconds by node count."""
    about = dict.fromkeys(["study", "experiment", "model", "strategy"], "x")
    rows = [
        about
        | {"curve": "c", "source": "measured", "batch_per_worker": batch, "nodes": n}
        | {"fitted_s": seconds, "observed_s": seen.get(n), "held_out": scenario != ALL_POINTS}
        | {"low_s": None, "high_s": None, "error": None, "scenario": scenario}
        for scenario, seen in (
            (ALL_POINTS, {n: t for n, t in observed.items() if n not in crowded}),
            (OVERSUBSCRIBED, {n: t for n, t in observed.items() if n in crowded}),
        )
        for n, seconds in fitted.items()
        if scenario == ALL_POINTS or n in seen
    ]
    return typed(rows, PREDICTIONS)


def test_a_line_is_fitted_up_to_the_last_point_and_predicted_beyond():
    rows = predictions({1: 1.0, 2: 1.5, 3: 1.6, 4: 1.7}, {1: 1.0, 2: 1.4, 3: 3.0}, crowded=(3,))
    roles = views.fit_roles(rows)
    line = roles[roles["role"].isin(["fitted", "predicted"])]
    assert line.set_index("nodes")["role"].to_dict() == {
        1: "fitted",
        2: "fitted",
        3: "predicted",
        4: "predicted",
    }
    points = roles[roles["role"] == "observed"].set_index("nodes")
    assert points["flags"].ne("").to_dict() == {1: False, 2: False, 3: True}
    assert views.held_out(rows).empty  # a crowded point is not a trial of the law


def test_speedups_are_of_like_against_like():
    rows = predictions({1: 1.0, 2: 1.6, 3: 1.6}, {1: 1.2, 2: 1.5})
    speed = views.speedup_roles(rows).set_index(["role", "nodes"])["speedup"]
    assert speed["fitted", 2] == pytest.approx(2 / 1.6)
    assert speed["observed", 2] == pytest.approx(2 * 1.2 / 1.5)


@pytest.mark.parametrize(
    ("fitted", "pays_from", "best"),
    [
        ({1: 1.0, 2: 2.1, 3: 2.5, 4: 2.9}, 3, 4),
        ({1: 1.0, 2: 1.1, 3: 2.0, 4: 4.5}, 2, 2),
        ({1: 1.0, 2: 2.5, 3: 3.5, 4: 4.5}, None, 4),
    ],
)
def test_break_even_is_the_first_node_count_that_is_faster_than_one(fitted, pays_from, best):
    row = views.break_even(predictions(fitted, {1: 1.0})).iloc[0]
    assert (None if pd.isna(row["pays_from"]) else row["pays_from"]) == pays_from
    assert (row["best"], row["reach"]) == (best, 4)
    assert row["speedup"] == pytest.approx(best / fitted[best])


def test_nothing_measured_shows_nothing(empty):
    for view in (views.training_times, views.accuracies, views.beside_published, views.epochs):
        assert view(empty).empty
    for view in (views.step_parts, views.speedups, views.scaling_lines):
        assert view(empty["curves"]).empty
    none = typed((), PREDICTIONS)
    for view in (views.fit_roles, views.speedup_roles, views.break_even, views.held_out):
        assert view(none).empty


def test_fits_that_are_missing_or_misfit_stop_with_one_line(tmp_path):
    make.write_study(tmp_path, [])
    folder = tmp_path / "overhead"
    assert all(table.empty for table in views.read_overhead(folder).values())
    (folder / "fits.csv").write_text("curve,source\na,b\n")
    with pytest.raises(UserError, match=r"fits\.csv.*missing"):
        views.read_overhead(folder)
    (folder / "fits.csv").write_text("")
    with pytest.raises(UserError, match=r"fits\.csv"):
        views.read_overhead(folder)
    (folder / "fits.csv").unlink()
    with pytest.raises(UserError, match=r"fits\.csv"):
        views.read_overhead(folder)

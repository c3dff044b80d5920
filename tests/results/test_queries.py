"""The rows of the tables that charts and pages show."""

import pandas as pd
import pytest

import make_records as make
from nodewise.core.errors import UserError
from nodewise.predict import fit_queries
from nodewise.predict.judge import EACH, LARGEST
from nodewise.predict.study import ALL_POINTS, OVERSUBSCRIBED, read_overhead
from nodewise.results import queries
from nodewise.results.columns import OVERHEAD
from nodewise.results.table_files import typed
from nodewise.results.tables import build_tables


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
    lines = queries.scaling_lines(tables["curves"])
    assert set(lines["line"]) == {"multi_worker_mirrored"}
    counted = lines.groupby(["experiment", "batch_per_worker"])["nodes"].apply(list)
    assert all(nodes == [1, 2, 3] for nodes in counted)


def test_a_single_point_without_other_strategies_is_its_own_line(tmp_path):
    curves = build_tables(make.write([make.record(make.cell())], tmp_path), None)["curves"]
    assert queries.scaling_lines(curves)["line"].tolist() == ["single"]
    assert queries.speedups(curves).empty  # A single point shows no scaling.


def test_steps_are_projected_onto_the_study_and_say_so(tables):
    times = queries.training_times(tables)
    projected = at(times, experiment="ntua_steps", batch_per_worker=64, nodes=2)
    curve = at(tables["curves"], experiment="ntua_steps", batch_per_worker=64, nodes=2)
    assert projected["kind"] == "measured step time × steps"
    assert projected["epochs"] == 5
    assert projected["seconds"] == pytest.approx(curve["step_time_s"] * (60_000 // 128) * 5)
    assert projected["low_seconds"] == pytest.approx(curve["epoch_time_low_s"] * 5)


def test_whole_epochs_need_no_projection(tables):
    times = queries.training_times(tables)
    whole = at(times, experiment="ntua_epochs", batch_per_worker=512, nodes=2)
    cell = at(tables["cells"], experiment="ntua_epochs", batch_per_worker=512, nodes=2)
    assert whole["kind"] == "measured"
    assert whole["seconds"] == pytest.approx(cell["train_time_s"])


def test_other_numbers_of_epochs_are_projected_and_have_no_accuracy_beside_the_study(tmp_path):
    extent = make.EPOCHS.model_copy(update={"epochs": 2})
    cell = make.cell(experiment="ntua_epochs", batch=512, extent=extent)
    tables = build_tables(make.write([make.record(cell)], tmp_path), make.published())
    times = queries.training_times(tables)
    assert at(times, experiment="ntua_epochs")["kind"] == "measured step time × steps"
    assert at(times, experiment="ntua_epochs")["epochs"] == 5
    assert set(queries.accuracies(tables)["kind"]) == {"published"}


def test_without_a_published_table_the_time_is_that_of_one_epoch(tmp_path):
    tables = build_tables(make.write([make.record(make.cell())], tmp_path), None)
    times = queries.training_times(tables)
    assert times["epochs"].tolist() == [1]
    assert times["seconds"].tolist() == pytest.approx(tables["curves"]["epoch_time_s"].tolist())


def test_generated_data_is_told_by_the_kind(tmp_path):
    record = make.record(make.cell(), origin="generated")
    tables = build_tables(make.write([record], tmp_path), None)
    labels = queries.training_times(tables)["kind"].tolist()
    assert labels == ["measured step time × steps, generated data"]


def test_only_whole_epochs_have_an_accuracy(tables):
    ours = queries.accuracies(tables).query("kind == 'measured'")
    assert set(ours["experiment"]) == {"ntua_epochs"}
    assert set(ours["batch_per_worker"]) == {256, 512}


def test_every_published_point_stands_beside_ours_with_the_ratio(tables):
    beside = queries.published_and_ours(tables)
    assert len(beside) == len(tables["published"])
    row = at(beside, batch_per_worker=512, nodes=2)
    assert (row["label"], row["accuracy_label"]) == ("measured", "measured")  # not the projection
    assert row["ratio"] == pytest.approx(row["seconds_ours"] / row["seconds_published"])
    assert row["seconds_published"] == 90
    assert at(beside, batch_per_worker=32, nodes=3)["flags"] == "more workers than cores"


def test_all_times_beside_a_published_line_are_of_one_experiment(tables):
    beside = queries.published_and_ours(tables)
    timed = beside["experiment"].str.split(";").str[0]
    assert (timed.groupby(beside["batch_per_worker"]).nunique() == 1).all()
    # Whole epochs cover two node counts, steps three: the experiment with most points is used.
    fewer = tables["curves"].query("not whole_epochs or nodes < 3")
    beside = queries.published_and_ours(tables | {"curves": fewer})
    assert set(beside["experiment"].str.split(";").str[0]) == {"ntua_steps"}


def test_published_models_that_we_did_not_measure_stay_in_the_table_but_not_on_our_charts(tables):
    other = make.published().assign(model="bert_base", dataset="movie_reviews")
    both = tables | {"published": pd.concat([tables["published"], other], ignore_index=True)}
    assert queries.published_and_ours(both).groupby("model")["ratio"].count()["bert_base"] == 0
    assert set(queries.training_times(both)["model"]) == {"fashion_cnn"}


def test_what_more_nodes_save_is_of_the_batch_that_saved_most_and_of_all_models_in_the_mean(tables):
    published = tables["published"]
    other = published.assign(
        model="bert_base", dataset="movie_reviews", training_time_s=60 / published["nodes"]
    )
    both = tables | {"published": pd.concat([published, other], ignore_index=True)}
    rows = queries.improvements(both)
    assert set(rows["nodes"]) == {2, 3}
    one, two = (
        at(published, batch_per_worker=512, nodes=nodes)["training_time_s"] for nodes in (1, 2)
    )
    of_published = rows[rows["kind"] == "published"]
    row = at(of_published, model="fashion_cnn", nodes=2)
    assert row["batch_per_worker"] == 512 and row["saved"] == pytest.approx(1 - two / one)
    # There is no mean of ours, because only one of the two models was measured.
    mean = at(rows, model="", nodes=2)
    assert mean["kind"] == "published"
    assert mean["saved"] == pytest.approx((row["saved"] + 0.5) / 2)
    ours = rows[rows["kind"].str.startswith("measured")]
    assert set(ours["model"]) == {"fashion_cnn"} and set(ours["batch_per_worker"]) == {512}
    times = queries.training_times(tables)
    times = times[times["experiment"] == ours["experiment"].iloc[0]]
    speedup = at(times, batch_per_worker=512, nodes=2)["speedup"]
    assert at(ours, nodes=2)["saved"] == pytest.approx(1 - 1 / speedup)


def test_the_parts_add_up_to_the_split_step(tables):
    parts = queries.step_parts(tables["curves"])
    assert set(parts["experiment"]) == {"ntua_steps"}
    total = parts.groupby(["batch_per_worker", "nodes"])["seconds"].sum()
    cells = tables["cells"].groupby(["batch_per_worker", "nodes"])["split_step_s"].median()
    assert total.to_dict() == pytest.approx(cells.reindex(total.index).to_dict(), rel=0.05)


CURVE = dict.fromkeys(["study", "experiment", "model", "strategy"], "x") | {
    "curve": "c",
    "source": "measured",
    "data_origin": "official",
    "law": "ring",
}


def blank(columns):
    """Return a row of a table without values."""
    empty = {"str": "", "bool": False, "int64": 0}
    return {name: empty.get(dtype) for name, dtype in columns.items()}


def predictions(fitted, observed, *, batch=64, crowded=()):
    """Return the predictions of one curve, given fitted and observed seconds by node count."""
    last = max((n for n in observed if n not in crowded), default=0)
    rows = [
        blank(OVERHEAD["predictions"])
        | CURVE
        | {"batch_per_worker": batch, "nodes": n, "scenario": scenario, "beyond": n > last}
        | {"fitted_s": seconds, "observed_s": seen.get(n)}
        for scenario, seen in (
            (ALL_POINTS, {n: t for n, t in observed.items() if n not in crowded}),
            (OVERSUBSCRIBED, {n: t for n, t in observed.items() if n in crowded}),
        )
        for n, seconds in fitted.items()
        if scenario == ALL_POINTS or n in seen
    ]
    return typed(rows, OVERHEAD["predictions"])


def trials(*tried):
    """Return trials of the curve of `predictions`, given (nodes, scenario, own).

    `own` says whether the trial is of the curve's own law.
    """
    rows = [
        blank(OVERHEAD["trials"])
        | {name: value for name, value in CURVE.items() if name in OVERHEAD["trials"]}
        | {"batch_per_worker": 64, "nodes": n, "scenario": scenario, "own": own}
        | {"observed_s": 2.0, "predicted_s": 2.2, "error": 0.1}
        for n, scenario, own in tried
    ]
    return typed(rows, OVERHEAD["trials"])


def roles(predicted, tried=()):
    overhead = {"predictions": predicted, "trials": trials(*tried)}
    return fit_queries.fit_roles(fit_queries.with_trials(overhead))


def test_the_coefficients_of_a_curve_are_those_of_its_own_fit():
    """A link has a separate fit for each set of settings of a law."""
    fits = pd.DataFrame(
        [
            ("a", "lan", "gpipe", '{"activation_bytes": 1}', "compute_fixed_s"),
            ("", "lan", "gpipe", '{"activation_bytes": 1}', "latency_s"),
            ("", "lan", "gpipe", '{"activation_bytes": 2}', "latency_s"),
            ("b", "lan", "gpipe", '{"activation_bytes": 2}', "compute_fixed_s"),
            ("", "wan", "gpipe", '{"activation_bytes": 1}', "latency_s"),
            ("", "lan", "ring", "{}", "latency_s"),
        ],
        columns=["curve", "link", "law", "settings", "parameter"],
    )
    assert fit_queries.coefficients_of(fits, "a").index.tolist() == [0, 1]
    assert fit_queries.coefficients_of(fits, "b").index.tolist() == [2, 3]
    assert fit_queries.coefficients_of(fits, "none").empty


def test_a_line_is_fitted_up_to_the_last_point_and_predicted_beyond():
    rows = predictions({1: 1.0, 2: 1.5, 3: 1.6, 4: 1.7}, {1: 1.0, 2: 1.4, 3: 3.0}, crowded=(3,))
    shown = roles(rows)
    line = shown[shown["role"].isin(["fitted", "predicted"])]
    assert line.set_index("nodes")["role"].to_dict() == {
        1: "fitted",
        2: "fitted",
        3: "predicted",
        4: "predicted",
    }
    points = shown[shown["role"] == "observed"].set_index("nodes")
    assert points["flags"].ne("").to_dict() == {1: False, 2: False, 3: True}
    # A point with more workers than cores does not test the law.
    assert "held out" not in set(shown["role"])


def test_only_the_largest_node_count_left_out_of_a_way_s_own_law_is_drawn():
    rows = predictions({1: 1.0, 2: 1.5, 3: 1.6}, {1: 1.0, 2: 1.4, 3: 2.0})
    tried = [(3, LARGEST, True), (3, LARGEST, False), (2, EACH, True), (3, EACH, True)]
    shown = roles(rows, tried)
    held = shown[shown["role"] == "held out"]
    assert held["nodes"].tolist() == [3] and held["fitted_s"].tolist() == [2.2]
    assert fit_queries.held_out(trials(*tried))["predicted_s"].tolist() == [2.2]


def test_figures_reach_ten_nodes_or_to_the_last_point():
    rows = predictions({1: 1.0, 10: 1.5, 24: 1.6, 64: 1.7}, {1: 1.0})
    assert fit_queries.near(rows)["nodes"].max() == 10
    rows = predictions({1: 1.0, 10: 1.5, 24: 1.6, 64: 1.7}, {1: 1.0, 24: 1.6})
    assert fit_queries.near(rows)["nodes"].max() == 24


def test_speedups_are_of_like_against_like():
    rows = predictions({1: 1.0, 2: 1.6, 3: 1.6}, {1: 1.2, 2: 1.5})
    shown = fit_queries.with_trials({"predictions": rows, "trials": trials()})
    speed = fit_queries.speedup_roles(shown).set_index(["role", "nodes"])["speedup"]
    assert speed["fitted", 2] == pytest.approx(2 / 1.6)
    assert speed["observed", 2] == pytest.approx(2 * 1.2 / 1.5)


def test_the_interval_of_a_speed_up_is_that_of_the_answers_about_an_epoch():
    rows = predictions({1: 1.0, 2: 1.6}, {1: 1.2, 2: 1.5})
    shown = fit_queries.with_trials({"predictions": rows, "trials": trials()})
    optima = typed(
        [
            blank(OVERHEAD["optima"])
            | CURVE
            | {"job": job, "held": "batch_per_worker", "batch_per_worker": 64.0}
            | {"global_batch": 128.0, "nodes": 2, "speedup_low": 1.0, "speedup_high": 1.4}
            for job in ("epoch", "run")
        ],
        OVERHEAD["optima"],
    )
    reached = fit_queries.reach(shown, optima).set_index(["role", "nodes"])
    assert tuple(reached.loc[("fitted", 2), ["low", "high"]]) == (1.0, 1.4)
    assert reached.loc[("observed", 2), ["low", "high"]].isna().all()
    assert len(reached) == 4


def test_the_mean_of_savings_begins_at_two_nodes():
    rows = [
        blank(OVERHEAD["savings"]) | {"study": "ntua", "model": model, "nodes": n, "saved": 0.1 * n}
        for model in ("", "fashion_cnn")
        for n in (1, 2, 3)
    ]
    shown = fit_queries.mean_savings(typed(rows, OVERHEAD["savings"]))
    assert shown["nodes"].tolist() == [2, 3] and set(shown["model"]) == {""}


def test_nothing_measured_shows_nothing(empty):
    for view in (
        queries.training_times,
        queries.accuracies,
        queries.published_and_ours,
        queries.epochs,
    ):
        assert view(empty).empty
    assert queries.improvements(empty).empty
    for view in (queries.step_parts, queries.speedups, queries.scaling_lines):
        assert view(empty["curves"]).empty
    overhead = {name: typed((), columns) for name, columns in OVERHEAD.items()}
    none = fit_queries.with_trials(overhead)
    for view in (fit_queries.fit_roles, fit_queries.speedup_roles, fit_queries.near):
        assert view(none).empty
    assert fit_queries.held_out(overhead["trials"]).empty
    assert fit_queries.reach(none, overhead["optima"]).empty
    assert fit_queries.mean_savings(overhead["savings"]).empty


def test_fits_that_are_missing_or_misfit_stop_with_one_line(tmp_path):
    make.write_study(tmp_path, [])
    folder = tmp_path / "overhead"
    assert all(table.empty for table in read_overhead(folder).values())
    (folder / "fits.csv").write_text("curve,source\na,b\n")
    with pytest.raises(UserError, match=r"fits\.csv.*missing"):
        read_overhead(folder)
    (folder / "fits.csv").write_text("")
    with pytest.raises(UserError, match=r"fits\.csv"):
        read_overhead(folder)
    (folder / "fits.csv").unlink()
    with pytest.raises(UserError, match=r"fits\.csv"):
        read_overhead(folder)

"""Tables of a study become fits, predictions and trials."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import make_calibration
from law_times import step_s
from mistakes import user_error
from nodewise.cluster.kinds.ssh import Ssh
from nodewise.predict.answers import TrainingJob
from nodewise.predict.curve_predictions import find_answers
from nodewise.predict.fit_curves import find_groups, fit_curves, law_of
from nodewise.predict.fit_file import file_of, read_fit, write_fit
from nodewise.predict.law import LAWS
from nodewise.predict.steps_to_accuracy import BY_EPOCHS, KEY, StepsToAccuracy
from nodewise.predict.study import (
    LARGEST,
    NODES,
    fitted_tables,
    judge,
)
from nodewise.results import published
from nodewise.results.columns import COLUMNS, CURVE_KEY, FIT_COLUMNS
from nodewise.results.curve_points import measured_points, published_points
from nodewise.results.table_files import read_file, read_tables, typed, write_tables

RING = LAWS["ring"]
MACHINES = LAWS["ring_over_machines"].with_settings(per_machine=2)
TRUTH = dict.fromkeys((p.name for p in RING.parameters), 0.0) | {
    "compute_fixed_s": 0.005,
    "compute_per_example_s": 2e-4,
    "latency_s": 3e-4,
    "seconds_per_byte": 1 / 58e6,
}
PAYLOAD = 5_000_000
MWMS = "multi_worker_mirrored"
LAUNCH = {"study": "ntua", "experiment": "steps", "model": "fashion_cnn", "strategy": MWMS}
LAUNCH |= {"dataset": "fashion_mnist", "data_origin": "official", "machine": "a processor"}
LAUNCH |= {"cluster": "local", "cpu_share": 1.0, "rate_mbit": np.nan, "latency_ms": 0.0}
LAUNCH |= {"kind": "measured", "status": "ok", "whole_epochs": False, "pipeline": "sharded"}
LAUNCH |= {"exchange": "ring", "options": "{}"}
CELLS, CURVES = COLUMNS["cells"], COLUMNS["curves"]
NO_CURVES, NO_CELLS = typed((), CURVES), typed((), CELLS)
NO_PUBLISHED = typed((), COLUMNS["published"])


def launches(
    nodes=(1, 2, 3, 4),
    batches=(32, 128),
    repeats=1,
    noise=0.0,
    truth=TRUTH,
    cores=64,
    seed=0,
    law=RING,
    per_machine=1,
    **names,
):
    """Return rows of `cells`, one per launch: true times multiplied by a factor of the launch."""
    rng = np.random.default_rng(seed)
    rows = []
    for batch, n, repeat in itertools.product(batches, nodes, range(repeats)):
        seconds = step_s(law, truth, n, batch, PAYLOAD) * np.exp(noise * rng.standard_normal())
        at = {"batch_per_worker": batch, "nodes": n, "repeat": repeat, "global_batch": batch * n}
        at |= {"step_time_s": float(seconds), "steps_per_epoch": 60_000 // (batch * n)}
        row = LAUNCH | at | names
        name = f"{row['strategy']}/{batch}/{n}/{repeat}"
        rows.append(row | {"oversubscribed": n > cores, "cell_id": name})
    return pd.DataFrame(rows).assign(payload_bytes=PAYLOAD, nodes_per_machine=per_machine)


def tables(*parts):
    """Return the tables `curves` and `cells` of launches, with their usual columns and types."""
    rows = pd.concat(parts)
    alike = ["steps_per_epoch", "cell_id", "payload_bytes", "exchange", "options", "machine"]
    alike += ["pipeline", "nodes_per_machine", "cpu_share", "rate_mbit", "latency_ms"]
    points = rows.groupby(CURVE_KEY, as_index=False).agg(
        repeats=("repeat", "size"),
        cells=("repeat", "size"),
        oversubscribed=("oversubscribed", "any"),
        step_time_s=("step_time_s", "median"),
        **{name: (name, "first") for name in alike},
    )
    filled = {"reason": "", "commit": "", "started_at": pd.Timestamp(0, tz="UTC")}
    curves = points.assign(failed=0).reindex(columns=[*CURVES])
    cells = rows.assign(**filled).reindex(columns=[*CELLS])
    return typed(curves, CURVES), typed(cells, CELLS)


def fit_all(*parts, published=NO_PUBLISHED, draws=40):
    return fit_and_judge(*tables(*parts), published, draws=draws)


def points_of(curves, cells, published=NO_PUBLISHED):
    """Return the table of points of a study's own curves and of published curves."""
    points = [measured_points(curves, cells), published_points(published)]
    return pd.concat(points, ignore_index=True)


def fit_and_judge(*tables, **options):
    return fitted_tables(fit_curves(points_of(*tables), **options))


def coefficient(found, name):
    return only(found["fits"][found["fits"]["parameter"] == name])


def line(found, **at):
    rows = found["predictions"]
    for column, value in at.items():
        rows = rows[rows[column] == value]
    return rows


def only(table):
    assert len(table) == 1
    return table.iloc[0]


def test_nothing_measured_gives_empty_tables_with_their_columns():
    found = fit_and_judge(NO_CURVES, NO_CELLS, NO_PUBLISHED)
    assert list(found) == [*FIT_COLUMNS]
    for name, table in found.items():
        assert len(table) == 0
        assert {column: str(dtype) for column, dtype in table.dtypes.items()} == FIT_COLUMNS[name]


def test_a_known_truth_is_found_and_judged_right():
    found = fit_all(launches())
    assert coefficient(found, "compute_per_example_s")["value"] == pytest.approx(2e-4, rel=0.02)
    assert coefficient(found, "seconds_per_byte")["value"] == pytest.approx(1 / 58e6, rel=0.03)
    assert found["predictions"]["error"].max() < 0.01
    judged = judge(found["trials"])
    own = only(judged[judged["scenario"] == LARGEST])
    assert own["worst_error"] < 0.02
    assert (own["trained"], own["points"]) == ("1, 2, 3 → 4", 2)


def test_a_step_at_the_boundary_of_machines_is_fitted_with_two_links(tmp_path):
    """Two workers share a machine: their link is fast, links to other machines are slow."""
    truth = dict.fromkeys((p.name for p in MACHINES.parameters), 0.0) | TRUTH
    truth |= {"inside_latency_s": 2e-5, "inside_seconds_per_byte": 1 / 2e9}
    rows = launches(nodes=(1, 2, 4, 8), law=MACHINES, truth=truth, per_machine=2)
    found = fit_all(rows)
    assert coefficient(found, "latency_s")["law"] == "ring_over_machines"
    assert coefficient(found, "seconds_per_byte")["value"] == pytest.approx(1 / 58e6, rel=0.05)
    assert line(found)["error"].max() < 0.02
    plain = fit_all(rows.assign(nodes_per_machine=1))
    assert line(plain)["error"].max() > 0.1
    fitted = fit_curves(points_of(*tables(rows)))
    write_fit(tmp_path / "fit.json", file_of(fitted, "points", "0" * 64))
    file = read_fit(tmp_path / "fit.json")
    (curve,) = file.curves
    assert (curve.collective, curve.per_host) == ("ring_over_machines(per_machine=2)", 2)
    ((_, answers),) = find_answers(file, [2, 16], TrainingJob(), batch=32)
    expected = step_s(MACHINES, truth, answers.nodes, 32, PAYLOAD)
    assert answers.step_s[0, 1:] == pytest.approx(expected[1:], rel=0.05)


def test_predictions_reach_far_beyond_what_was_measured_and_say_so():
    rows = line(fit_all(launches(nodes=(1, 2, 11))))
    for _, of_batch in rows.groupby("batch_per_worker"):
        assert list(of_batch["nodes"]) == sorted({*NODES, 11})
        assert list(of_batch.loc[of_batch["observed_s"].notna(), "nodes"]) == [1, 2, 11]
    assert (rows["beyond"] == (rows["nodes"] > 11)).all()
    assert rows["error"].notna().equals(rows["observed_s"].notna())
    truth = step_s(RING, TRUTH, rows["nodes"], rows["batch_per_worker"], PAYLOAD)
    assert rows["fitted_s"].to_numpy() == pytest.approx(truth, rel=0.05)


@pytest.mark.slow
def test_what_was_held_out_was_not_fitted():
    """Changing the largest point must not change its own held-out prediction."""
    rows = launches()
    ruined = rows.assign(step_time_s=rows["step_time_s"].where(rows["nodes"] < 4, 9.9))
    before, after = (
        fit_all(of)["trials"].query("scenario == @LARGEST").set_index(["law", "batch_per_worker"])
        for of in (rows, ruined)
    )
    assert (before["nodes"] == 4).all()
    assert after["predicted_s"].to_dict() == before["predicted_s"].to_dict()
    assert (after["observed_s"] == 9.9).all()
    assert after["error"].to_numpy() == pytest.approx(abs(after["predicted_s"] / 9.9 - 1))


def test_oversubscribed_points_are_predicted_and_not_fitted():
    crowded = launches(nodes=(1, 2, 3), cores=2)
    crowded.loc[crowded["nodes"] == 3, "step_time_s"] *= 7
    found = fit_all(crowded)
    row = coefficient(found, "seconds_per_byte")
    assert row["points"] == 4
    assert found["trials"].empty
    shown = line(found, nodes=3)
    assert not shown["fitted"].any() and shown["beyond"].all()
    assert (shown["error"] > 0.8).all() and len(shown) == 2
    assert line(found, fitted=True)["nodes"].tolist() == [1, 2, 1, 2]
    clean = fit_all(launches(nodes=(1, 2)))
    assert row["value"] == coefficient(clean, "seconds_per_byte")["value"]


def test_a_strategy_borrows_the_single_node_of_its_batch():
    alone = launches(nodes=(1,), strategy="single", repeats=3, noise=0.01, seed=1)
    several = launches(nodes=(2, 3), repeats=3, noise=0.01, seed=2)
    found = fit_all(alone, several)
    assert set(found["fits"]["strategy"]) == {MWMS}
    assert (found["fits"]["points"] == 6).all()
    assert line(found, nodes=1)["observed_s"].notna().all()


@pytest.mark.parametrize(
    ("exchange", "options", "nodes"),
    [
        ("server", {}, {2, 3}),  # one node already communicates with its server
        ("activations", {"micro_batches": 1}, {1, 2, 3}),
        ("activations", {"micro_batches": 4}, {2, 3}),  # one step per micro-batch, not one in all
    ],
)
def test_single_is_a_point_of_a_curve_only_where_one_node_trains_alike(exchange, options, nodes):
    alone = launches(nodes=(1,), strategy="single")
    several = launches(nodes=(2, 3), strategy="other")
    several = several.assign(exchange=exchange, options=json.dumps(options))
    groups = find_groups(points_of(*tables(alone, several)))
    found = {group.rows["strategy"].iloc[0]: set(group.rows["nodes"]) for group in groups}
    assert found["other"] == nodes and ("single" in found) is (nodes == {2, 3})


@pytest.mark.slow
def test_examples_of_other_nodes_cost_only_who_is_given_them():
    truth = TRUTH | {"input_per_example_s": 1e-4}
    at = {"nodes": (1, 2, 3, 4, 6, 8), "batches": (32, 128, 512)}

    def spent(pipeline):
        found = fit_all(launches(truth=truth, pipeline=pipeline, **at))
        return coefficient(found, "input_per_example_s")["value"]

    assert spent("unsharded") == pytest.approx(1e-4, rel=0.2)
    assert spent("sharded") < 1e-6


def test_a_pipeline_knows_the_rate_of_its_link():
    link = {"cpu_share": 0.2, "rate_mbit": 100.0}
    made = tables(stages("0.2 core, 100 Mbit/s", **link), stages("of an unknown rate"))
    groups = find_groups(points_of(*made))
    known, unknown = (group.priors for group in groups)
    (beta,) = [prior for (name, _), prior in known.items() if name == "seconds_per_byte"]
    assert beta.mean == pytest.approx(8 / 450e6, rel=0.02)
    assert beta.spread == pytest.approx(beta.mean / 10)
    assert beta.least == pytest.approx(8 / 500e6, rel=0.03)
    assert not any(name == "seconds_per_byte" for name, _ in unknown)


@pytest.mark.parametrize("rates_mbit", [(), (200, 50)])  # else two nodes have a transfer
def test_a_calibration_of_hosts_tells_the_rate_of_their_slowest_link(rates_mbit):
    hosts = Ssh.model_validate({"kind": "ssh", "hosts": ["a", "b", "c"], "name": "lan"})
    streams = [make_calibration.stream("a", "b", rate) for rate in rates_mbit]
    update = {"cluster": hosts, "streams": streams}
    found = make_calibration.calibration((3 if streams else 2, 4)).model_copy(update=update)
    at = {"machine": found.provenance.cpu, "nodes": (1, 2, 3)}
    rows = [
        launches(cluster="lan", **at),
        launches(cluster="lan, 2 workers on each", per_machine=2, **at),
        launches(cluster="others", **at),
    ]
    told = {
        group.rows["cluster"].iloc[0]: group.priors.get(("seconds_per_byte", group.link))
        for group in find_groups(points_of(*tables(*rows)), [found])
    }
    slowest = make_calibration.stream("a", "b", min(rates_mbit, default=100))
    assert told["lan"].mean == pytest.approx(8 / slowest.bits_per_s, rel=0.01)
    assert told["lan, 2 workers on each"] == told["lan"]
    assert told["others"] is None
    (slow,) = find_groups(points_of(*tables(launches(cluster="lan", cpu_share=0.5, **at))), [found])
    own = slow.priors["seconds_per_byte", slow.link].mean  # own time passes half as fast
    assert own == pytest.approx(told["lan"].mean / 2)


def stages(cluster, nodes=(1, 2, 3), **more):
    about = {"strategy": "model_parallel", "kind": "emulated", "cluster": cluster}
    rows = launches(nodes=nodes, **about | more)
    return rows.assign(exchange="activations", options=json.dumps({"micro_batches": 1}))


def test_failed_points_are_left_out_and_counted():
    curves, cells = tables(launches())
    curves.loc[curves["nodes"] == 4, "step_time_s"] = np.nan
    found = fit_and_judge(curves, cells, NO_PUBLISHED, draws=20)
    row = coefficient(found, "latency_s")
    assert row["points"] == 6
    assert set(found["trials"].loc[found["trials"]["scenario"] == LARGEST, "nodes"]) == {3}
    curves["step_time_s"] = np.nan
    found = fit_and_judge(curves, cells, NO_PUBLISHED)
    assert all(table.empty for table in found.values())


def test_other_kinds_and_clusters_are_other_links_and_other_experiments_other_models():
    others = {"model": "resnet50", "kind": "emulated", "strategy": "mpi"}
    others |= {"experiment": "epochs", "cluster": "namespaces", "study": "nodewise"}
    found = fit_all(launches(), *(launches(**{name: other}) for name, other in others.items()))
    predictions = found["predictions"]
    assert not predictions.duplicated(["curve", "batch_per_worker", "nodes"]).any()
    assert predictions["curve"].nunique() == 7
    links = found["fits"].loc[found["fits"]["parameter"] == "latency_s", "link"]
    assert len(links) == 4 and links.is_unique


@pytest.mark.parametrize(
    ("exchange", "options", "law"),
    [
        ("none", {}, "ring"),
        ("ring", {}, "ring"),
        ("star", {}, "star"),
        ("averaging", {"period": 5}, "averaging"),
        ("averaging", {"period": "epoch"}, None),
        ("server", {"servers": 2}, "server"),
        ("all-gather", {"method": "top_k"}, "compressed"),
        ("activations", {"micro_batches": 4}, "gpipe"),
        ("activations", {"groups": 2, "micro_batches": 4}, None),
        ("devices", {}, None),
    ],
)
def test_the_law_is_that_of_what_ran(exchange, options, law):
    rows = launches().assign(exchange=exchange, options=json.dumps(options))
    found = law_of(points_of(*tables(rows)).assign(bytes_sent_per_step=1e6))
    assert (found.name if found else None) == law


def test_files_are_written_whole_and_read_back(tmp_path):
    found = fit_all(launches(repeats=2, noise=0.05), published=published.points().head(3))
    write_tables(found, tmp_path)
    for name, table in read_tables(tmp_path, FIT_COLUMNS).items():
        pd.testing.assert_frame_equal(table, found[name])
        pd.testing.assert_frame_equal(read_file(tmp_path / f"{name}.csv", FIT_COLUMNS[name]), table)
    assert "inf" not in (tmp_path / "predictions.csv").read_text(encoding="utf-8")


@given(
    st.lists(
        st.tuples(
            st.sampled_from([16, 64, 256]),
            st.integers(1, 12),
            st.floats(1e-6, 1e4) | st.just(float("nan")),
            st.booleans(),
            st.sampled_from(["single", MWMS]),
        ),
        max_size=8,
        unique_by=lambda row: (row[0], row[1], row[4]),
    )
)
def test_any_table_of_points_is_coped_with(drawn):
    rows = [
        launches(nodes=(n,), batches=(batch,), strategy=strategy).assign(
            step_time_s=seconds, oversubscribed=crowded
        )
        for batch, n, seconds, crowded, strategy in drawn
    ]
    curves, cells = tables(*rows) if rows else (NO_CURVES, NO_CELLS)
    found = fit_and_judge(curves, cells, NO_PUBLISHED, draws=5)
    numbers = [table.select_dtypes("float") for table in found.values()]
    assert all(not np.isinf(table).any(axis=None) for table in numbers)
    assert (found["fits"]["points"] > 0).all()
    timed = set(curves.loc[curves["step_time_s"].notna(), "step_time_s"])
    assert timed >= set(found["predictions"]["observed_s"].dropna())


def test_the_fits_of_a_study_are_a_fit_file_that_predicts_the_same(tmp_path):
    points = points_of(*tables(launches(repeats=2, noise=0.05)), published.points().head(3))
    found = fit_curves(points, draws=20)
    write_fit(tmp_path / "fit.json", file_of(found, "curve_points.csv", "0" * 64))
    file = read_fit(tmp_path / "fit.json")
    predictions = fitted_tables(found)["predictions"]
    assert {curve.name for curve in file.curves} == set(predictions["curve"])
    for curve, answers in find_answers(file, [2, 8], TrainingJob()):
        of_curve = predictions[predictions["curve"] == curve.name]
        of_curve = of_curve.set_index(["batch_per_worker", "nodes"])
        expected = of_curve.loc[answers.batch[0]].loc[[1, 2, 8], "fitted_s"]
        assert answers.step_s[0] == pytest.approx(expected.to_numpy())


def test_a_study_without_points_has_a_fit_file_that_predicts_nothing(tmp_path):
    file = tmp_path / "fit.json"
    write_fit(file, file_of(fit_curves(points_of(NO_CURVES, NO_CELLS)), "points.csv", "0" * 64))
    said = user_error(read_fit, file)
    assert "fit.json: holds no curve, as points.csv has no points" in said


# --- the best numbers of nodes ---


@pytest.fixture(scope="module")
def found():
    return fit_all(launches(nodes=(1, 2, 3, 4, 8), repeats=2, noise=0.01))


def test_without_examples_of_an_epoch_the_job_is_a_million_of_them(found):
    assert set(found["optima"]["job"]) == {"epoch"}
    rows = fit_all(launches().assign(steps_per_epoch=None))["optima"]
    assert set(rows["job"]) == {"1M examples"}


def test_an_epoch_is_that_of_the_law(found):
    rows, line = (
        found[name].query("batch_per_worker == 128").set_index("nodes")
        for name in ("optima", "predictions")
    )
    steps = 60_000 // 128 * 128 / (128 * rows.index.to_numpy())
    shared = rows.index.isin(line.index)
    seconds = line["fitted_s"].reindex(rows.index[shared]) * steps[shared]
    assert rows["time"][shared].to_numpy() == pytest.approx(seconds.to_numpy(), rel=0.01)
    assert rows.loc[4, "cost"] == pytest.approx(4 * rows.loc[4, "time"] / 3600)


def test_all_numbers_of_nodes_that_matter_are_listed(found):
    for _, rows in found["optima"].groupby(["job", "batch_per_worker"]):
        assert set(NODES) <= set(rows["nodes"])
        assert {"knee", "fastest", "cheapest"} <= set(", ".join(rows["best_for"]).split(", "))
        assert rows["best_for"].str.contains("knee").sum() == 1
    assert found["optima"].loc[found["optima"]["nodes"] > 16, "extrapolated"].all()


def test_one_number_of_nodes_answers_nothing():
    rows = fit_all(launches(nodes=(3,)))
    assert rows["optima"].empty and len(rows["fits"])


def test_time_to_an_accuracy_is_asked_where_steps_are_known():
    fitted = fit_curves(measured_points(*tables(launches())), draws=10)
    law = StepsToAccuracy(np.array([[100.0, 50_000.0]] * 6), np.zeros(6))
    key = dict(zip(KEY, ("fashion_cnn", "fashion_mnist", "official"), strict=True))
    row = key | {"basis": BY_EPOCHS, "kind": "fitted", "missing": "", "law": law}
    rows = fitted_tables(fitted, [row])["optima"]
    known = rows[rows["job"] == "run"]
    assert set(known["batch_per_worker"]) == {32, 128}
    rows = fitted_tables(fitted, [row | {"model": "resnet50"}])["optima"]
    assert "run" not in set(rows["job"])

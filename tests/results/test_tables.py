"""From records to tables: what is computed, what stays empty, what stops with one line."""

import math
import sys

import pandas as pd
import pytest

import make_records as make
from mistakes import user_error
from nodewise.cluster import namespace
from nodewise.results.columns import COLUMNS, PARTS
from nodewise.results.table_files import read_tables, write_tables
from nodewise.results.tables import OVERSUBSCRIBED, build_tables


@pytest.fixture
def tables(tmp_path):
    return make.tables_of(make.grid(), tmp_path, make.published())


def assert_declared(tables):
    assert list(tables) == list(COLUMNS)
    for name, table in tables.items():
        assert {str(c): str(t) for c, t in table.dtypes.items()} == COLUMNS[name]


def test_tables_have_the_declared_columns_and_types(tables):
    assert_declared(tables)
    assert len(tables["cells"]) == 36
    assert len(tables["curves"]) == 21


@pytest.mark.parametrize(
    ("launches", "kept"),
    [
        (["", "a"], "a"),
        (["a", "", "", ""], ""),  # The median is not affected.
        (["a; b", "", "b; c"], "a; b; c"),
    ],
)
def test_a_point_keeps_the_cautions_of_half_of_its_launches(tmp_path, launches, kept):
    records = []
    for repeat, flags in enumerate(launches):
        seen = make.conditions(9, outside=[*filter(None, flags.split("; "))])
        records.append(make.changed(make.record(make.cell(repeat=repeat)), conditions=seen))
    tables = make.tables_of(records, tmp_path)
    assert tables["cells"]["flags"].tolist() == launches
    assert tables["curves"]["flags"].tolist() == [kept]


@pytest.mark.parametrize("crowded", [True, False])
def test_a_record_says_itself_whether_there_were_more_workers_than_cores(tmp_path, crowded):
    # With 2.5 cores, 8 workers of 0.3 cores fit, although the recorded number is rounded to 2; and
    # the other way around.
    cluster = {"kind": "emulated", "node": {"cpu": 0.3 if not crowded else 0.2}}
    record = make.changed(make.record(make.cell(n=8, cluster=cluster)), oversubscribed=crowded)
    row = make.tables_of([record], tmp_path)["cells"].iloc[0]
    assert row["oversubscribed"] == crowded
    assert row["flags"] == (OVERSUBSCRIBED if crowded else "")


def test_launches_on_several_machines_are_a_caution_and_no_base_for_each_other(tmp_path):
    records = [
        *(make.record(make.cell(n=n)) for n in (1, 2)),
        make.record(make.cell(n=2, repeat=1), cpu="another"),
        make.record(make.cell(batch=128, n=1)),
        make.record(make.cell(batch=128, n=2), cpu="another"),
    ]
    curves = make.tables_of(records, tmp_path)["curves"].set_index(["batch_per_worker", "nodes"])
    flags = curves["flags"].to_dict()
    assert flags.pop((64, 2)) == "launches on several machines"
    assert [*flags.values()] == ["", "", ""]
    assert curves["speedup"].isna().to_dict().pop((128, 2))
    assert curves["speedup"][64, 2] > 1


def test_curves_of_two_clusters_of_hosts_are_never_mixed(tmp_path):
    def cell(name, n, **more):
        hosts = {"kind": "ssh", "hosts": ["a", "b"], "name": name}
        return make.cell(n=n, cluster=hosts, **more)

    records = [make.record(cell(name, n)) for name, n in (("here", 1), ("here", 2), ("there", 4))]
    tables = make.tables_of(records, tmp_path)
    curves = tables["curves"].set_index(["cluster", "nodes"])
    assert {*curves.index[curves["speedup"].notna()]} == {("here", 1), ("here", 2)}
    points = tables["curve_points"]
    of_cluster = points.groupby("cluster")[["curve", "link"]].nunique()
    assert of_cluster.to_numpy().tolist() == [[1, 1]] * 2
    assert points["curve"].nunique() == points["link"].nunique() == 2


def test_points_of_emulated_nodes_know_their_share_of_a_core_and_their_link(tmp_path):
    slow = {"kind": "emulated", "node": {"cpu": 0.4}, "slow_node": {"cpu": 0.1}}
    clusters = [{"kind": "local"}, slow | {"link": {"rate_mbit": 250.5, "latency_ms": 3}}]
    records = [make.record(make.cell(n=n, cluster=of)) for n, of in enumerate(clusters, 2)]
    without = make.record(make.cell(n=4, cluster=clusters[1]))
    network = without.provenance.model_copy(update={"network": namespace.NO_EMULATION})
    records.append(without.model_copy(update={"kind": "emulated", "provenance": network}))
    points = make.tables_of(records, tmp_path)["curve_points"]
    emulated, local = points["rate_mbit"].notna(), points["cluster"] == "local"
    assert points.loc[emulated, "nodes"].tolist() == [3]  # on 4 nodes, no link was limited
    columns = ["cpu_share", "rate_mbit", "latency_ms"]
    assert points.loc[emulated, columns].to_numpy().tolist() == [[0.4, 250.5, 3]]
    assert points.loc[local, "cpu_share"].tolist() == [1]


def test_without_results_the_tables_keep_their_columns(tmp_path):
    tables = build_tables([], None)
    assert_declared(tables)
    assert all(table.empty for table in tables.values())
    tables = make.tables_of([make.failed(make.cell(n=3), "out of memory")], tmp_path)
    assert_declared(tables)
    assert len(tables["cells"]) == 1
    assert tables["curves"].empty and tables["epochs"].empty


def test_a_failed_cell_keeps_its_axes_and_its_reason_and_has_no_number(tmp_path):
    cell = make.cell(n=3, batch=128)
    row = make.tables_of([make.failed(cell, "worker 2 did not finish")], tmp_path)["cells"].iloc[0]
    assert (row["cell_id"], row["nodes"], row["global_batch"]) == (cell.id, 3, 384)
    assert (row["status"], row["reason"]) == ("failed", "worker 2 did not finish")
    assert row["oversubscribed"]
    assert row[["step_time_s", "steps", "test_accuracy", "energy_j"]].isna().all()
    assert row["energy_kind"] == ""


def test_the_numbers_of_a_cell_follow_from_its_record(tmp_path):
    record = make.record(make.cell(n=2, batch=100))
    times = ([10_000, 20_000, 30_000, 40_000], [12_000, 20_000, 34_000, 40_000])
    seen = [
        {"step_us": times[0], "input_us": 2000, "elapsed_s": 0.11, "bytes_sent": 4000},
        {"step_us": times[1], "input_us": 2800, "elapsed_s": 0.12, "bytes_sent": 8000},
    ]
    workers = [worker.model_dump() | seen[worker.rank] for worker in record.result.workers]
    epoch = {"epoch": 1, "steps": 4, "seconds": 0.12, "loss": 1.5, "accuracy": 0.5}
    record = make.changed(record, workers=workers, epochs=[epoch], steps_per_epoch=300)
    tables = make.tables_of([record], tmp_path)
    row = tables["cells"].iloc[0]
    assert row["step_time_s"] == pytest.approx(0.12 / 4)  # the time of the slowest worker
    assert row["step_time_median_s"] == pytest.approx((0.020 + 0.032) / 2)
    assert row["examples_per_s"] == pytest.approx(200 / 0.03)
    assert row["epoch_time_s"] == pytest.approx(0.03 * 300)
    assert row["train_time_s"] == pytest.approx(0.12)
    assert row["bytes_sent_per_step"] == pytest.approx(6000 / 4)
    assert row["input_s"] == pytest.approx(0.0006)
    assert row["train_accuracy"] == 0.5
    assert not row["whole_epochs"]


EXTENT = make.cell().extent
# nodes that do not train count for the timed steps; one more split step traces the others
TIMED = EXTENT.steps / (EXTENT.warmup_steps + EXTENT.steps + EXTENT.split_steps + 1)


@pytest.mark.parametrize(
    ("changes", "joules", "kind"),
    [
        ({}, 2 * 3 * 5.0, "estimated"),
        ({"others_cpu_s": 4.0}, (2 * 3 + 4 * TIMED) * 5.0, "estimated"),
        ({"energy_j": 123.0}, 123.0, "measured"),  # as older records have it
    ],
)
def test_energy_is_metered_or_cpu_time_times_declared_watts(tmp_path, changes, joules, kind):
    record = make.with_workers(make.record(make.cell(n=2)), lambda worker: {"cpu_s": 3.0})
    paths = make.write([make.changed(record, **changes)], tmp_path)
    row = build_tables(paths, watts_per_core=5.0)["cells"].iloc[0]
    assert (row["energy_j"], row["energy_kind"]) == (pytest.approx(joules), kind)


def split_row(folder, *splits):
    """Return the row of a cell of two workers with these split steps."""
    record = make.with_workers(
        make.record(make.cell(n=2)),
        lambda worker: {"split": splits[worker.rank] | {"idle_barrier_us": 2}},
    )
    return make.tables_of([record], folder)["cells"].iloc[0]


def test_the_parts_of_a_step_have_their_shares_of_the_median_step(tmp_path):
    splits = [
        {"compute_us": [10, 30, 50], "wait_us": [4, 4, 4], "communicate_us": [1, 2, 9]},
        {"compute_us": [20, 30, 40], "wait_us": [0, 0, 0], "communicate_us": [3, 2, 1]},
    ]
    row = split_row(tmp_path, *(split | {"apply_us": [1, 1, 1]} for split in splits))
    assert row["split_step_s"] == pytest.approx(35e-6)  # the median of 20, 35 and 53 µs
    parts = [row[f"{part}_s"] * 108 / 35 for part in PARTS]
    assert parts == pytest.approx([90e-6, 6e-6, 9e-6, 3e-6])
    assert math.isnan(row["split_timed"])


def test_what_is_timed_around_the_parts_is_the_step(tmp_path):
    split = {"compute_us": [60, 60], "wait_us": [0, 0], "communicate_us": [20, 20]}
    split |= {"apply_us": [10, 10], "step_us": [100, 100]}
    row = split_row(tmp_path, split, split)
    assert row["split_step_s"] == pytest.approx(100e-6)
    assert sum(row[f"{part}_s"] for part in PARTS) == pytest.approx(90e-6)
    assert row["split_timed"] == pytest.approx(0.9)


def test_a_curve_is_the_median_over_launches_and_counts_those_that_failed(tmp_path):
    records = [make.record(make.cell(repeat=repeat)) for repeat in range(3)]
    failed = make.failed(make.cell(repeat=3), "no room")
    tables = make.tables_of([*records, failed], tmp_path)
    seconds, curve = tables["cells"]["step_time_s"].dropna(), tables["curves"].iloc[0]
    assert (curve["repeats"], curve["cells"], curve["failed"]) == (3, 4, 1)
    assert curve["step_time_s"] == pytest.approx(sorted(seconds)[1])
    assert curve["step_time_low_s"] < curve["step_time_s"] < curve["step_time_high_s"]
    assert curve["epoch_time_s"] == pytest.approx(curve["step_time_s"] * (60_000 // 64))
    assert curve["examples_per_s"] == pytest.approx(64 / curve["step_time_s"])


def test_without_the_single_strategy_speedup_is_against_the_own_point_on_the_same_data(tmp_path):
    several = {"strategy": "multi_worker_mirrored"}
    records = [make.record(make.cell(n=n, **several)) for n in (1, 2)]
    records.append(make.record(make.cell(n=2, batch=128)))
    records.append(make.record(make.cell(n=2, repeat=1, **several), origin="generated"))
    curves = make.tables_of(records, tmp_path)["curves"]
    alone = curves.set_index(["data_origin", "batch_per_worker", "nodes"])["speedup"].isna()
    assert alone[alone].index.tolist() == [("generated", 64, 2), ("official", 128, 2)]


def test_the_order_of_the_files_does_not_matter(tmp_path):
    paths = make.write(make.grid(batches=(32, 64)), tmp_path)
    forward, backward = build_tables(paths, None), build_tables(paths[::-1], None)
    for name, table in forward.items():
        pd.testing.assert_frame_equal(table, backward[name])


def test_a_record_that_does_not_fit_and_two_of_one_cell_are_one_line(tmp_path):
    (first,) = make.write([make.record(make.cell())], tmp_path / "a")
    (second,) = make.write([make.record(make.cell())], tmp_path / "b")
    said = user_error(build_tables, [first, second], None)
    assert said.startswith(f"{second}: duplicate record") and str(first) in said
    second.write_text(second.read_text().replace('"ok"', '"perhaps"'))
    assert user_error(build_tables, [first, second], None).startswith(f"{second}: status")


def test_tables_read_back_as_written(tables, tmp_path):
    out = tmp_path / "tables"
    write_tables(tables, out)
    again = read_tables(out)
    for name, table in tables.items():
        pd.testing.assert_frame_equal(table, again[name])
        text = pd.read_csv(out / f"{name}.csv")
        assert list(text.columns) == list(table.columns) and len(text) == len(table)
    expected = {f"{name}.{end}" for name in tables for end in ("csv", "parquet")}
    assert {path.name for path in out.iterdir()} == expected  # and no temporary file


def test_a_missing_or_foreign_table_stops_with_one_line(tables, tmp_path, monkeypatch):
    write_tables(tables, tmp_path)
    path = tmp_path / "cells.parquet"
    tables["cells"].drop(columns="nodes").to_parquet(path)
    assert "nodes" in user_error(read_tables, tmp_path)
    path.write_text("not a table")
    assert str(path) in user_error(read_tables, tmp_path)
    path.unlink()
    assert "make the tables first" in user_error(read_tables, tmp_path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as without the extra `study`
    with pytest.raises(ModuleNotFoundError, match="pyarrow") as caught:
        read_tables(tmp_path)
    assert caught.value.name == "pyarrow"

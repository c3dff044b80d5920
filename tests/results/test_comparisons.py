"""Which points are compared: always with the same base, and nodes only with nodes."""

import re

import pytest

import make_records as make
from nodewise.report import claims
from nodewise.results import comparisons, queries
from rendering import render


def slower(record, factor):
    """Return a record whose workers took `factor` times as long."""

    def slow(worker):
        step_us = [round(us * factor) for us in worker.step_us]
        return {"step_us": step_us, "elapsed_s": factor * worker.elapsed_s}

    return make.with_workers(record, slow)


def scored(cell, accuracy):
    """Return the record of a training with the given test accuracy."""
    test = {"examples": 10_000, "loss": 0.41, "accuracy": accuracy}
    return make.changed(make.record(cell), test=test)


def test_speed_ups_are_against_single_also_where_the_way_has_a_slow_node_of_its_own(tmp_path):
    way = {"strategy": "custom_loop"}
    records = [
        make.record(make.cell()),
        slower(make.record(make.cell(n=1, **way)), 2),
        make.record(make.cell(n=2, **way)),
    ]
    tables = make.tables_of(records, tmp_path)
    curve = tables["curves"].query("strategy == 'custom_loop'").set_index("nodes")["speedup"]
    (point,) = comparisons.on_several_nodes(tables["curves"])["speedup"]
    assert point == pytest.approx(curve[2])
    assert curve[1] == pytest.approx(0.5, rel=0.1)
    times = queries.training_times(tables).set_index(["line", "nodes"])["speedup"]
    assert times["custom_loop", 2] == pytest.approx(curve[2])


def test_of_points_measured_twice_the_one_without_a_caution_stands_beside_the_published(tmp_path):
    calm = [make.record(make.cell(experiment="z", n=n)) for n in (1, 2)]
    loaded = make.conditions(9, outside=["foreign load"])
    crowded = [make.record(make.cell(experiment="a", n=n)) for n in (1, 2)]
    crowded = [make.changed(record, conditions=loaded) for record in crowded]
    other = make.record(make.cell(experiment="z", n=2, strategy="mpi"))
    records = [*calm, *crowded, slower(other, 0.5)]
    tables = make.tables_of(records, tmp_path, make.published())
    beside = queries.published_and_ours(tables).dropna(subset="ratio")
    assert set(beside["experiment"]) == {"z"}
    assert set(beside["flags"]) == {""}
    mine = tables["curves"].query("experiment == 'z' and strategy == 'multi_worker_mirrored'")
    (ours,) = beside.loc[beside["nodes"] == 2, "seconds_ours"]
    assert ours == pytest.approx(5 * mine["epoch_time_s"].item())


def test_accuracies_compare_nodes_with_the_same_way_and_leave_devices_out(tmp_path):
    def cell(n, strategy):
        return make.cell(experiment="whole", extent=make.EPOCHS, n=n, strategy=strategy)

    records = [
        scored(cell(1, "custom_loop"), 0.95),
        scored(cell(1, "parameter_averaging"), 0.80),
        scored(cell(2, "parameter_averaging"), 0.79),
        scored(cell(2, "mirrored"), 0.10),
        scored(cell(2, "mpi"), 0.50),
    ]
    beside = claims.points("test_accuracy", make.tables_of(records, tmp_path), "nodes", [(2, 1)])
    assert beside["strategy"].tolist() == ["parameter_averaging"]
    assert beside["value"].tolist() == pytest.approx([0.79 / 0.80])


@pytest.mark.slow
def test_a_model_of_the_same_name_on_other_data_has_its_own_page(tmp_path):
    batches = {"fashion_mnist": 64, "mnist": 96}
    records = [
        make.record(make.cell(experiment=f"of_{data}", dataset=data, batch=batch, n=n))
        for data, batch in batches.items()
        for n in (1, 2)
    ]
    make.write_study(tmp_path, records)
    docs = render(tmp_path)
    for data, batch in batches.items():
        page = (docs / f"results/{data.replace('_', '-')}/fashion-cnn.md").read_text()
        assert {int(one) for one in re.findall(r"Batch per worker: (\d+)", page)} == {batch}


def test_parts_that_say_little_of_a_step_have_a_caution_and_unshown_ones_no_value(tmp_path):
    whole = make.tables_of([make.record(make.cell(n=n)) for n in (1, 2)], tmp_path)["curves"]
    sound = comparisons.split(whole[whole["nodes"] == 2])
    assert sound["flags"].tolist() == [""] and sound["communicate_s"].iloc[0] > 0
    short = {"kind": "emulated", "step_time_s": comparisons.SHORT_S / 2}
    found = comparisons.split(whole[whole["nodes"] == 2].assign(**short, communicate_s=0.0))
    assert "too short for parts" in found["flags"].iloc[0]
    assert "far longer than the step" in found["flags"].iloc[0]
    assert found["communicate_s"].isna().all()

"""The plan of a study: estimates that follow from work and machine, and what is done already."""

import csv
import statistics
import subprocess
import sys
from collections import defaultdict
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import make_records as make
from nodewise.core.cell import Cell
from nodewise.core.schema import json_text
from nodewise.models.facts import facts, own_description
from nodewise.models.registry import registry
from nodewise.results.record import Record, read_record
from nodewise.study import estimate
from nodewise.study.config import Config, read_config

PUBLISHED = Path("config/published.yaml")  # of records, with nothing to measure
MACHINE = estimate.Machine(estimate.REFERENCE_S, cores=2)
WORK = estimate.Work(
    forward_flops=4e6,
    training_flops=12e6,
    payload_bytes=5_000_000,
    layers=7,
    train_examples=60_000,
    test_examples=10_000,
)
EMULATED = {"kind": "emulated", "node": {"cpu": 0.4}, "link": {"rate_mbit": 200}}


def step_s(cell: Cell, machine: estimate.Machine = MACHINE, work: estimate.Work = WORK) -> float:
    return estimate.estimate(cell, work, machine).step_s


def cell_s(cell: Cell, machine: estimate.Machine = MACHINE, work: estimate.Work = WORK) -> float:
    return estimate.estimate(cell, work, machine).cell_s


def test_a_step_is_its_operations_at_the_speed_of_a_core():
    expected = 12e6 * 64 / WORK.speed + estimate.STEP_S
    assert step_s(make.cell(batch=64)) == pytest.approx(expected)


def test_a_model_of_32_times_the_operations_takes_16_times_as_long():
    large = WORK._replace(training_flops=32 * WORK.training_flops)
    small_s, large_s = (step_s(make.cell(), work=work) - estimate.STEP_S for work in (WORK, large))
    assert large_s == pytest.approx(16 * small_s)


def test_a_model_without_operations_to_count_takes_the_time_of_a_step_alone():
    none = WORK._replace(training_flops=0, forward_flops=0)
    assert step_s(make.cell(), work=none) == pytest.approx(estimate.STEP_S)


def test_each_process_takes_its_time_to_trace_each_layer():
    deep = WORK._replace(layers=107)
    one, two = (cell_s(make.cell(n=n), work=deep) - cell_s(make.cell(n=n)) for n in (1, 2))
    assert one == pytest.approx(100 * estimate.LAYER_S)
    assert two == pytest.approx(2 * one)


def test_a_ring_sends_its_bytes_over_the_link_and_through_the_core():
    alone, two, four = (step_s(make.cell(n=n, cluster=EMULATED)) for n in (1, 2, 4))
    wire_s = 5e6 * 8 / 200e6 + 5e6 / estimate.BYTES / 0.4
    assert two - alone == pytest.approx(wire_s)
    assert four - alone == pytest.approx(1.5 * wire_s)


def exchange(strategy: str, nodes: int, **fields: object) -> estimate.Exchange:
    return estimate.exchange(make.cell(strategy=strategy, n=nodes, **fields), WORK)


def test_a_server_has_the_gradients_of_all_come_in_and_weights_go_out():
    served = exchange("parameter_server", 4, servers=1)
    assert (served.bytes_sent, served.turns) == (4 * 5e6, 2)
    assert exchange("async_sgd", 4, servers=2).bytes_sent == 2 * 5e6


def test_a_driver_passes_on_what_the_others_send_it():
    star = exchange("multi_worker_mirrored", 4, options={"collective": "star"})
    assert (star.bytes_sent, star.turns) == (3 * 5e6, 2)


def test_devices_of_one_process_send_nothing_and_averaging_seldom():
    assert exchange("mirrored", 4, one_process=True).bytes_sent == 0
    ring = exchange("custom_loop", 4).bytes_sent
    assert exchange("parameter_averaging", 4, options={"period": 5}).bytes_sent == ring / 5
    steps = WORK.train_examples // make.cell(n=4).global_batch
    once = exchange("parameter_averaging", 4, options={"period": "epoch"})
    assert once.bytes_sent == pytest.approx(ring / steps)


def test_more_devices_than_cores_take_turns_in_one_process_too():
    two, many = (
        step_s(
            make.cell(strategy="mirrored", n=4, one_process=True),
            estimate.Machine(estimate.REFERENCE_S, c),
        )
        for c in (2, 8)
    )
    assert two == pytest.approx(2 * many)


@pytest.fixture(scope="module")
def estimated() -> list[tuple[Record, estimate.Estimate]]:
    """The committed records that have a result, and what each would have been estimated at."""
    found = []
    for path in Path("data/records").rglob("repeat~*.json"):
        record = read_record(path)
        if record.result is None or record.cell.build:
            continue
        seen = record.result.conditions
        reference_s = (seen.reference_before_us + seen.reference_after_us) / 2e6
        machine = estimate.Machine(reference_s, record.provenance.cores)
        work = estimate.work_of(record.cell.model, record.cell.dataset)
        found.append((record, estimate.estimate(record.cell, work, machine)))
    return found


@pytest.mark.parametrize(("axis", "values"), [("strategy", 11), ("model", 7)])
def test_estimated_steps_are_near_what_was_measured(estimated, axis, values):
    ratios = defaultdict(list)
    for record, expected in estimated:
        real_s = record.result.elapsed_s / record.result.steps
        ratios[getattr(record.cell, axis)].append(expected.step_s / real_s)
    medians = {value: statistics.median(of) for value, of in ratios.items()}
    assert len(medians) >= values
    assert {value: x for value, x in medians.items() if not 0.5 < x < 2} == {}


def test_estimated_cells_are_near_what_was_measured_whatever_the_model(estimated):
    ratios = defaultdict(list)
    for record, expected in estimated:
        real_s = (record.finished_at - record.started_at).total_seconds()
        ratios[record.cell.model].append(expected.cell_s / real_s)
    medians = {model: statistics.median(of) for model, of in ratios.items()}
    assert {model: x for model, x in medians.items() if not 0.5 < x < 2} == {}


def test_a_share_of_a_core_stretches_what_the_core_does():
    assert step_s(make.cell(cluster=EMULATED)) == pytest.approx(step_s(make.cell()) / 0.4)


def test_latency_is_paid_by_each_message_of_the_ring():
    late = EMULATED | {"link": {"rate_mbit": 200, "latency_ms": 10}}
    three = {"n": 3}
    grown = step_s(make.cell(**three, cluster=late)) - step_s(make.cell(**three, cluster=EMULATED))
    assert grown == pytest.approx(4 * 0.010)


def test_more_nodes_than_cores_take_turns():
    two, many = (step_s(make.cell(n=4), estimate.Machine(estimate.REFERENCE_S, c)) for c in (2, 8))
    assert two == pytest.approx(2 * many)


def test_a_machine_half_as_fast_takes_twice_as_long():
    slow = estimate.Machine(2 * estimate.REFERENCE_S, 2)
    assert cell_s(make.cell(), slow) == pytest.approx(2 * cell_s(make.cell()))


def test_epochs_have_as_many_steps_as_the_global_batch_leaves():
    short, long = (
        make.cell(batch=100, n=2, extent={"warmup_steps": 1, "epochs": e, "split_steps": 0})
        for e in (1, 3)
    )
    assert cell_s(long) - cell_s(short) == pytest.approx(2 * 300 * step_s(long))


SIZES = st.integers(1, 64)


@given(batch=st.integers(1, 4096), nodes=SIZES, more=SIZES, steps=st.integers(2, 1000))
def test_more_work_never_takes_less_time(batch, nodes, more, steps):
    def of(**axes: int) -> float:
        sizes = {"batch": batch, "n": nodes} | axes
        extent = {"warmup_steps": 1, "steps": sizes.pop("steps", steps), "split_steps": 2}
        return cell_s(make.cell(**sizes, cluster=EMULATED, extent=extent))

    assert of(batch=batch + more) > of()
    assert of(steps=steps + more) > of()
    assert step_s(make.cell(n=min(64, nodes + more))) >= step_s(make.cell(n=nodes))


def study(**experiment: object) -> Config:
    declared = {
        "title": "By hand",
        "study": "ntua",
        "models": ["fashion_cnn"],
        "strategies": {"single": {"nodes": [1]}, "multi_worker_mirrored": {"nodes": [2]}},
        "batches": [64, 512],
        "cluster": {"kind": "local"},
        "extent": {"steps": 40},
    }
    return Config.model_validate(
        {"name": "tiny", "title": "Tiny", "experiments": {"ntua_steps": declared | experiment}}
    )


def recorded(planned: estimate.Planned, folder: Path, ratio: float) -> None:
    """Write a record of a planned cell that took `ratio` times its estimate."""
    record = make.record(planned.cell)
    seconds = timedelta(seconds=ratio * planned.estimate.cell_s)
    finished = record.started_at + seconds
    make.write([record.model_copy(update={"finished_at": finished})], folder)


def test_recorded_cells_are_done_and_say_how_good_the_estimate_is(tmp_path):
    before = estimate.plan(study(), tmp_path, MACHINE)
    assert estimate.ratios(before) == []
    assert "No cell has a record yet" in estimate.report(study(), before, MACHINE)
    recorded(before[0], tmp_path, 1.5)
    recorded(before[1], tmp_path, 0.8)
    after = estimate.plan(study(), tmp_path, MACHINE)
    assert estimate.ratios(after) == pytest.approx([0.8, 1.5], rel=1e-4)
    assert [one.to_do_s > 0 for one in after] == [False, False, True, True]
    said = estimate.report(study(), after, MACHINE)
    assert "Recorded cells took 1.15 times their estimate (median of 2; 0.80 to 1.50)" in said


def test_what_is_to_do_is_corrected_by_recorded_steps_of_the_same_model(tmp_path):
    both = study(models=["fashion_cnn", "fashion_mlp"])
    before = estimate.plan(both, tmp_path, MACHINE)
    done = next(one for one in before if one.cell.model == "fashion_cnn")
    recorded(done, tmp_path, 1.0)
    record = read_record(tmp_path / f"{done.cell.id}.json")
    factor = record.result.elapsed_s / record.result.steps / done.estimate.step_s
    for old, new in zip(before, estimate.plan(both, tmp_path, MACHINE), strict=True):
        of_it = old.cell.model == "fashion_cnn"
        if old is not done:
            work_s = (factor if of_it else 1) * old.estimate.work_s
            assert new.to_do_s == pytest.approx(work_s + old.estimate.fixed_s)


def test_a_record_of_another_version_is_still_to_do(tmp_path):
    planned = estimate.plan(study(), tmp_path, MACHINE)
    path = tmp_path / f"{planned[0].cell.id}.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"schema_version": 1}')
    again = estimate.plan(study(), tmp_path, MACHINE)
    assert all(one.record is None for one in again)


def test_nothing_is_made_up_for_a_model_of_the_user_s_own(tmp_path):
    own = {"mine": {"build": "models/templates/own_model.py:build", "dataset": "fashion_mnist"}}
    planned = estimate.plan(study(own_models=own), tmp_path, MACHINE)
    assert sum(one.estimate is None for one in planned) == 4
    said = estimate.report(study(), planned, MACHINE)
    assert "unknown for 4 cells of your own models" in said
    assert (
        "To estimate your own model: "
        "nodewise describe-model models/templates/own_model.py:build --dataset fashion_mnist"
    ) in said


def test_a_described_model_of_the_user_s_own_is_estimated_like_others(tmp_path, monkeypatch):
    own = {"mine": {"build": "models/templates/own_model.py:build", "dataset": "fashion_mnist"}}
    both = study(own_models=own)
    described = facts("fashion_cnn")
    monkeypatch.setattr("nodewise.models.facts.OWN_DESCRIPTIONS", tmp_path)
    mine = next(cell for cell in both.cells() if cell.build)
    path = own_description(mine)
    path.write_text(json_text(described.model_copy(update={"model": path.stem})))
    planned = estimate.plan(both, tmp_path / "records", MACHINE)
    step_s = {}
    for one in planned:
        key = one.cell.strategy, one.cell.batch, one.cell.nodes
        step_s.setdefault(key, set()).add(one.estimate.step_s)
    assert len(step_s) == 4 and all(len(seen) == 1 for seen in step_s.values())
    assert "describe-model" not in estimate.report(both, planned, MACHINE)


def test_cells_that_would_not_end_in_time_are_named(tmp_path):
    hasty = study().model_copy(update={"cell_time_limit_s": 1.0})
    planned = estimate.plan(hasty, tmp_path, MACHINE)
    said = estimate.report(hasty, planned, MACHINE)
    assert "may take longer than cell_time_limit_s (1)" in said
    assert planned[0].cell.id in said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (42.4, "42 s"),
        (59.6, "1 min"),
        (3569, "59 min"),
        (3571, "1 h 0 min"),
        (3700, "1 h 2 min"),
        (47.9 * 3600, "47 h 54 min"),
        (200_000, "2 days 7 h"),
    ],
)
def test_durations_are_said_as_people_say_them(seconds, said):
    assert estimate.in_words(seconds) == said


@pytest.mark.parametrize("config", sorted({*Path("config").glob("*.yaml")} - {PUBLISHED}), ids=str)
def test_every_study_of_the_project_can_be_planned(config):
    declared = read_config(config)
    planned = estimate.plan(declared, Path("nowhere"), MACHINE)
    assert len(planned) == len(declared.cells())
    described = [one for one in planned if not one.cell.build]  # not a model of somebody's own
    assert all(one.estimate is not None and one.estimate.cell_s > 0 for one in described)


def test_the_paper_study_is_the_published_grid():
    cells = read_config(Path("config/paper.yaml")).cells()
    with Path("data/published/ntua_table1.csv").open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    wanted = {
        (row["model"], int(batch), nodes, int(row["epochs"]))
        for row in table
        for batch in row["initial_batch_sizes"].split(";")
        for nodes in (1, 2, 3)
    }
    assert {(c.model, c.batch, c.nodes, c.extent.epochs) for c in cells} == wanted
    assert len(cells) == len(wanted)
    assert {cell.dataset for cell in cells} == {row["dataset"] for row in table}


def test_the_full_study_has_every_model_and_the_data_service():
    cells = read_config(Path("config/full.yaml")).cells()
    assert {cell.model for cell in cells} == set(registry())
    assert {cell.preprocessing_nodes for cell in cells if cell.input == "service"} == {2}
    assert all(cell.extent.steps for cell in cells)


def test_the_command_needs_no_tensorflow_and_measures_with_one_thread(tmp_path):
    (tmp_path / "tiny.yaml").write_text(
        yaml.safe_dump(study().model_dump(exclude_none=True, exclude={"records"}), sort_keys=False)
    )
    code = (
        "import sys; from nodewise.cli import app; "
        f"app(['plan', '--config', {str(tmp_path / 'tiny.yaml')!r}], standalone_mode=False); "
        "import os; threads = len(os.listdir('/proc/self/task')); "
        "sys.exit('tensorflow' in sys.modules or 'pandas' in sys.modules or threads > 1)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "total" in done.stdout

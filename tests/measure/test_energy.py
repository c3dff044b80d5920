"""Energy is counted by meters, or estimated if there are none."""

import sys
from types import SimpleNamespace

import pytest

import make_records as make
from nodewise.measure import energy
from nodewise.results.tables import build_tables


def meter(folder, name, microjoules, turns_at=262_143_328_850, of="package-0"):
    package = folder / name
    package.mkdir(exist_ok=True)
    (package / "name").write_text(f"{of}\n")
    (package / "energy_uj").write_text(f"{microjoules}\n")
    (package / "max_energy_range_uj").write_text(f"{turns_at}\n")


def test_processors_are_read_and_neither_their_parts_nor_the_computer_counts_them_again(tmp_path):
    def show(package_0, package_1, core, computer):
        meter(tmp_path, "intel-rapl:0", package_0)
        meter(tmp_path, "intel-rapl:0:0", core, of="core")
        meter(tmp_path, "intel-rapl:1", package_1, of="package-1")
        meter(tmp_path, "intel-rapl:2", computer, of="psys")

    show(1_000_000, 1_000_000, 1_000_000, 1_000_000)
    before = energy.readings(tmp_path)
    show(3_500_000, 1_250_000, 2_000_000, 9_000_000)
    assert energy.spent(before, energy.readings(tmp_path)) == pytest.approx(2.75)


def test_a_meter_may_start_again_from_nothing(tmp_path):
    meter(tmp_path, "intel-rapl:0", 9_000_000, turns_at=10_000_000)
    before = energy.readings(tmp_path)
    meter(tmp_path, "intel-rapl:0", 500_000, turns_at=10_000_000)
    assert energy.spent(before, energy.readings(tmp_path)) == pytest.approx(1.5)


def test_a_meter_that_is_asked_often_enough_may_turn_over_more_than_once(tmp_path):
    meter(tmp_path, "intel-rapl:0", 9_000_000, turns_at=10_000_000)
    meters = energy.Meters(tmp_path)
    for microjoules in (3_000_000, 8_000_000, 2_000_000):
        meter(tmp_path, "intel-rapl:0", microjoules, turns_at=10_000_000)
        joules = meters.joules()
    assert joules == pytest.approx(4 + 5 + 4)


def test_without_meters_nothing_is_known_of_them(tmp_path):
    meters = energy.Meters(tmp_path)
    meter(tmp_path, "intel-rapl:0", 1)
    assert (meters.joules(), meters.joules()) == (None, None)


def test_what_cannot_be_read_is_no_meter(tmp_path):
    assert energy.spent(energy.readings(tmp_path), energy.readings(tmp_path)) is None
    meter(tmp_path, "intel-rapl:0", "no number")
    assert energy.readings(tmp_path) == {}


def test_a_meter_that_appears_meanwhile_tells_nothing(tmp_path):
    before = energy.readings(tmp_path)
    meter(tmp_path, "intel-rapl:0", 1)
    assert energy.spent(before, energy.readings(tmp_path)) is None


def test_graphics_cards_are_read(tmp_path, monkeypatch):
    joules = [10.0]
    nvml = SimpleNamespace(
        NVMLError=RuntimeError,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda number: number,
        nvmlDeviceGetTotalEnergyConsumption=lambda device: joules[0] * 1000,
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    before = energy.readings(tmp_path)
    joules[0] = 12.5
    assert energy.spent(before, energy.readings(tmp_path)) == pytest.approx(5)


def energy_of(tmp_path, watts, **changes):
    """Return the energy and its kind, from the table of a cell with a changed result."""
    record = make.record(make.cell(n=2))
    workers = [w.model_copy(update={"cpu_s": 3.0}) for w in record.result.workers]
    result = record.result.model_copy(update={"workers": workers} | changes)
    paths = make.write([record.model_copy(update={"result": result})], tmp_path)
    row = build_tables(paths, watts_per_core=watts)["cells"].iloc[0]
    return row["energy_j"], row["energy_kind"]


def test_without_meters_energy_is_cpu_time_times_declared_watts(tmp_path):
    assert energy_of(tmp_path, 5.0) == (pytest.approx(30), "estimated")


def test_nodes_that_do_not_train_count_for_the_timed_steps_only(tmp_path):
    extent = make.cell(n=2).extent
    # One more split step runs before the timed ones: it traces them.
    timed = extent.steps / (extent.warmup_steps + extent.steps + extent.split_steps + 1)
    joules, _ = energy_of(tmp_path, 10.0, others_cpu_s=4.0)
    assert joules == pytest.approx(60 + 40 * timed)


def test_what_meters_counted_is_measured(tmp_path):
    assert energy_of(tmp_path, 5.0, energy_j=123.0) == (123.0, "measured")


def test_a_cell_without_result_used_nothing_that_is_known(tmp_path):
    paths = make.write([make.failed(make.cell(n=2), "a worker was killed")], tmp_path)
    row = build_tables(paths, None)["cells"].iloc[0]
    assert row["energy_kind"] == "" and row["energy_j"] != row["energy_j"]

"""Energy is counted by meters, or estimated if there are none."""

import pytest

import make_records as make
from nodewise.measure import energy
from nodewise.results.tables import build_tables

TURNS_AT = 10_000_000


def meter(folder, name, microjoules, of="package-0"):
    package = folder / name
    package.mkdir(exist_ok=True)
    (package / "name").write_text(f"{of}\n")
    (package / "energy_uj").write_text(f"{microjoules}\n")
    (package / "max_energy_range_uj").write_text(f"{TURNS_AT}\n")


def show(folder, *, package_0, package_1, core, computer):
    meter(folder, "intel-rapl:0", package_0)
    meter(folder, "intel-rapl:0:0", core, of="core")
    meter(folder, "intel-rapl:1", package_1, of="package-1")
    meter(folder, "intel-rapl:2", computer, of="psys")


def test_processors_are_read_and_neither_their_parts_nor_the_computer_counts_them_again(tmp_path):
    show(tmp_path, package_0=1_000_000, package_1=1_000_000, core=1_000_000, computer=1_000_000)
    meters = energy.Meters(tmp_path)
    show(tmp_path, package_0=3_500_000, package_1=1_250_000, core=2_000_000, computer=9_000_000)
    assert meters.joules() == pytest.approx(2.75)


def test_a_meter_that_is_asked_often_enough_may_turn_over_more_than_once(tmp_path):
    meter(tmp_path, "intel-rapl:0", 9_000_000)
    meters = energy.Meters(tmp_path)
    for microjoules in (3_000_000, 8_000_000, 2_000_000):
        meter(tmp_path, "intel-rapl:0", microjoules)
        joules = meters.joules()
    assert joules == pytest.approx(4 + 5 + 4)


def test_without_meters_or_with_one_that_appears_meanwhile_nothing_is_known(tmp_path):
    meters = energy.Meters(tmp_path)
    assert meters.joules() is None
    meter(tmp_path, "intel-rapl:0", "no number")
    assert meters.joules() is None
    meter(tmp_path, "intel-rapl:0", 1)
    assert (meters.joules(), meters.joules()) == (None, None)


EXTENT = make.cell(n=2).extent
# nodes that do not train count for the timed steps; one more split step traces the others
TIMED = EXTENT.steps / (EXTENT.warmup_steps + EXTENT.steps + EXTENT.split_steps + 1)


@pytest.mark.parametrize(
    ("changes", "joules", "kind"),
    [
        ({}, 2 * 3 * 5.0, "estimated"),
        ({"others_cpu_s": 4.0}, (2 * 3 + 4 * TIMED) * 5.0, "estimated"),
        ({"energy_j": 123.0}, 123.0, "measured"),
    ],
)
def test_energy_is_metered_or_cpu_time_times_declared_watts(tmp_path, changes, joules, kind):
    record = make.record(make.cell(n=2))
    workers = [w.model_copy(update={"cpu_s": 3.0}) for w in record.result.workers]
    result = record.result.model_copy(update={"workers": workers} | changes)
    paths = make.write([record.model_copy(update={"result": result})], tmp_path)
    row = build_tables(paths, watts_per_core=5.0)["cells"].iloc[0]
    assert (row["energy_j"], row["energy_kind"]) == (pytest.approx(joules), kind)


def test_a_cell_without_result_used_nothing_that_is_known(tmp_path):
    paths = make.write([make.failed(make.cell(n=2), "a worker was killed")], tmp_path)
    row = build_tables(paths, None)["cells"].iloc[0]
    assert row["energy_kind"] == "" and row["energy_j"] != row["energy_j"]

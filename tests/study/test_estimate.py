"""Estimated times of cells follow from their work and the machine."""

import statistics
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import make_records as make
from nodewise.core.cell import Cell
from nodewise.data.registry import Entry, find
from nodewise.models.facts import facts
from nodewise.results.record import Record, read_record
from nodewise.study import estimate

MACHINE = estimate.Machine(estimate.REFERENCE_S, cores=2)
MODEL = facts("fashion_cnn")
DATA = find(estimate.DATASETS, "fashion_mnist", Entry)
EMULATED = {"kind": "emulated", "node": {"cpu": 0.4}, "link": {"rate_mbit": 200}}


def step_s(cell: Cell, machine: estimate.Machine = MACHINE) -> float:
    return estimate.estimate(cell, MODEL, DATA, machine).step_s


def cell_s(cell: Cell) -> float:
    return estimate.estimate(cell, MODEL, DATA, MACHINE).cell_s


def test_a_ring_sends_its_bytes_over_the_link_and_through_the_core():
    alone, two, four = (step_s(make.cell(n=n, cluster=EMULATED)) for n in (1, 2, 4))
    wire_s = MODEL.payload_bytes * (8 / 200e6 + 1 / estimate.BYTES / 0.4)
    assert two - alone == pytest.approx(wire_s)
    assert four - alone == pytest.approx(1.5 * wire_s)


@pytest.mark.parametrize("one_process", [{}, {"strategy": "mirrored", "one_process": True}])
def test_more_nodes_or_devices_than_cores_take_turns(one_process):
    cell = make.cell(n=4, **one_process)
    two, many = (step_s(cell, estimate.Machine(estimate.REFERENCE_S, c)) for c in (2, 8))
    assert two == pytest.approx(2 * many)


@pytest.fixture(scope="module")
def estimated() -> list[tuple[Record, estimate.Estimate]]:
    """Return one committed record of each point, with the estimate for its cell."""
    found = []
    for path in Path("data/records").rglob("repeat~0.json"):
        record = read_record(path)
        if record.result is None or record.cell.build:
            continue
        seen = record.result.conditions
        reference_s = (seen.reference_before_us + seen.reference_after_us) / 2e6
        machine = estimate.Machine(reference_s, record.provenance.cores)
        work = estimate.work_of(record.cell)
        found.append((record, estimate.estimate(record.cell, *work, machine)))
    return found


@pytest.mark.parametrize(
    ("what", "axis", "values"),
    [("step", "strategy", 11), ("step", "model", 7), ("cell", "model", 7)],
)
def test_estimates_are_near_what_was_measured(estimated, what, axis, values):
    ratios = defaultdict(list)
    for record, expected in estimated:
        real_s = record.result.elapsed_s / record.result.steps
        if what == "cell":
            real_s = (record.finished_at - record.started_at).total_seconds()
        ratios[getattr(record.cell, axis)].append(getattr(expected, f"{what}_s") / real_s)
    medians = {value: statistics.median(of) for value, of in ratios.items()}
    assert len(medians) >= values
    assert {value: x for value, x in medians.items() if not 0.5 < x < 2} == {}


def test_a_step_takes_longer_on_a_share_of_a_core_and_with_latency():
    assert step_s(make.cell(cluster=EMULATED)) == pytest.approx(step_s(make.cell()) / 0.4)
    late = EMULATED | {"link": {"rate_mbit": 200, "latency_ms": 10}}
    grown = step_s(make.cell(n=3, cluster=late)) - step_s(make.cell(n=3, cluster=EMULATED))
    assert grown == pytest.approx(4 * 0.010)  # each message of the ring


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

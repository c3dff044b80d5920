"""Energy is estimated from CPU time; older records may have metered energy."""

import pytest

import make_records as make
from nodewise.results.tables import build_tables

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

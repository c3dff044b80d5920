"""A block on a busy machine is repeated, unless a repetition could lose what was measured."""

from pathlib import Path
from types import SimpleNamespace

import pytest

import make_records as make
from nodewise.measure import block_job, quiet_machine
from nodewise.results.record import Conditions

CLUSTER = SimpleNamespace(apply_limits=lambda: None, lift_limits=lambda: None)
LIMIT_S, BLOCK_S = 600.0, 120.0
RESTLESS = ["the machine's host took 9% of the cores' time"]


@pytest.mark.parametrize(
    ("outside", "most", "limit_s", "blocks"),
    [
        ([RESTLESS, []], 3, LIMIT_S, 2),  # until the machine is quiet
        ([RESTLESS] * 9, 3, 1e6, 3),
        ([RESTLESS], 1, LIMIT_S, 1),
        # 360 s of 600 s have passed; another block may take up to 240 s
        ([RESTLESS] * 9, 9, LIMIT_S, 3),
    ],
)
def test_a_block_is_repeated_until_the_machine_is_quiet_within_limits(
    monkeypatch, outside, most, limit_s, blocks
):
    now = SimpleNamespace(seconds=1000.0)
    monkeypatch.setattr(block_job.time, "monotonic", lambda: now.seconds)
    seen = iter(
        Conditions.model_validate(make.conditions(10) | {"outside": told}) for told in outside
    )
    watch = SimpleNamespace(conditions=lambda: next(seen))
    monkeypatch.setattr(quiet_machine, "Watch", lambda cluster: watch)
    job = block_job.BlockJob(
        CLUSTER, 1, print, logs=Path("logs"), time_limit_s=limit_s, most_blocks=most
    )
    again = True
    while again:
        job.on_meeting("warm", [])
        now.seconds += BLOCK_S
        again = job.on_meeting("timed", [])
    assert len(job.blocks) == blocks

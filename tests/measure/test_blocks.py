"""A block on a busy machine is repeated, unless a repetition could lose what was measured."""

from types import SimpleNamespace

import pytest

import make_records as make
from nodewise.measure import quiet_machine
from nodewise.results import quiet_thresholds
from nodewise.results.measurement import Conditions

CLUSTER = SimpleNamespace(throttle=lambda: None, unleash=lambda: None)
LIMIT_S, BLOCK_S = 600.0, 120.0
PLENTY_S = 1e6


@pytest.fixture
def clock(monkeypatch):
    """A clock that the tests set."""
    now = SimpleNamespace(seconds=1000.0)
    monkeypatch.setattr(quiet_machine.time, "monotonic", lambda: now.seconds)
    return now


def blocks_until_done(
    clock, monkeypatch, *outside: list[str], limit=quiet_thresholds.MAX_BLOCKS, limit_s=LIMIT_S
) -> int:
    """Return how many blocks a launch takes; `outside` is what exceeds thresholds in each block."""
    seen = [Conditions.model_validate(make.conditions(10) | {"outside": said}) for said in outside]
    watched = iter(seen)
    monkeypatch.setattr(
        quiet_machine, "Watch", lambda cluster: SimpleNamespace(conditions=lambda: next(watched))
    )
    blocks = quiet_machine.Blocks(CLUSTER, limit=limit, time_limit_s=limit_s)
    again = True
    while again:
        blocks.begin()
        clock.seconds += BLOCK_S
        again = blocks.end()
    return len(blocks.seen)


RESTLESS = ["the machine's host took 9% of the cores' time"]


def test_it_is_repeated_until_the_machine_is_quiet(clock, monkeypatch):
    assert blocks_until_done(clock, monkeypatch, RESTLESS, []) == 2


def test_it_is_not_repeated_for_ever(clock, monkeypatch):
    restless = [RESTLESS] * 9
    assert blocks_until_done(clock, monkeypatch, *restless, limit_s=PLENTY_S) == 3


def test_it_is_not_repeated_where_one_is_the_limit(clock, monkeypatch):
    assert blocks_until_done(clock, monkeypatch, RESTLESS, limit=1) == 1


def test_it_is_kept_if_another_might_not_end_in_time(clock, monkeypatch):
    blocks = 3 * [RESTLESS]
    monkeypatch.setattr(quiet_thresholds, "MAX_BLOCKS", 9)
    # 360 s of 600 s have passed; another block may take up to 240 s.
    assert blocks_until_done(clock, monkeypatch, *blocks) == 3

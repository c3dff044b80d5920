"""Setting the system clock during a measurement changes no duration and no order of records."""

import time
from datetime import UTC, datetime, timedelta

from nodewise.measure import period

NOW = datetime(2026, 11, 25, 10, tzinfo=UTC)


class SteppedClock(datetime):
    """A system clock that is an hour earlier each time it is read."""

    asked = 0

    @classmethod
    def now(cls, tz=None):
        cls.asked += 1
        return NOW - timedelta(hours=cls.asked)


def test_what_ends_after_the_clock_was_set_back_ends_after_it_began(monkeypatch):
    monkeypatch.setattr(period, "datetime", SteppedClock)
    taken = period.Period()
    time.sleep(0.05)
    lasted = taken.finished_at() - taken.started_at
    assert timedelta(seconds=0.05) <= lasted < timedelta(seconds=5)
    assert 0.05 <= taken.seconds() < 5
    assert round(taken.clock_set_s()) == -3600 * (SteppedClock.asked - 1)
    assert abs(period.Period().clock_set_s() + 3600) < 1

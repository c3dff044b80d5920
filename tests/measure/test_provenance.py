"""What a record says about the machine that measured it, and about the time."""

import shlex
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from nodewise.measure import period
from nodewise.measure.provenance import command, processor

TWO = """\
processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: {family}
model\t\t: {model}
model name\t: AMD EPYC
flags\t\t: fpu vme

processor\t: 1
cpu family\t: 0
model\t\t: 0
model name\t: another
"""


def test_two_generations_of_one_name_are_two_processors():
    assert processor(TWO.format(family=26, model=2)) == "AMD EPYC (family 26, model 2)"
    assert processor(TWO.format(family=25, model=1)) == "AMD EPYC (family 25, model 1)"


def test_a_command_can_be_typed_again_and_names_no_folder_outside_the_project(tmp_path):
    outside = tmp_path / "my study.yaml"
    told = command("nodewise", "calibrate", "--config", outside, "--out", Path("results/a b.json"))
    words = ["nodewise", "calibrate", "--config", "my study.yaml", "--out", "results/a b.json"]
    assert shlex.split(told) == words
    assert command(Path("config/../config/study.yaml")) == "config/study.yaml"
    assert command(Path("config/study.yaml").absolute()) == "config/study.yaml"
    assert command(Path("../elsewhere/study.yaml")) == "study.yaml"


class SteppedClock(datetime):
    """A system clock that is an hour earlier each time it is read."""

    asked = 0

    @classmethod
    def now(cls, tz=None):
        cls.asked += 1
        return datetime(2026, 11, 25, 10, tzinfo=UTC) - timedelta(hours=cls.asked)


def test_what_ends_after_the_clock_was_set_back_ends_after_it_began(monkeypatch):
    monkeypatch.setattr(period, "datetime", SteppedClock)
    taken = period.Period()
    time.sleep(0.05)
    lasted = taken.finished_at() - taken.started_at
    assert timedelta(seconds=0.05) <= lasted < timedelta(seconds=5)
    assert 0.05 <= taken.seconds() < 5
    assert round(taken.clock_set_s()) == -3600 * (SteppedClock.asked - 1)
    assert abs(period.Period().clock_set_s() + 3600) < 1

"""Numbers are read as people post them, with their units."""

import pytest

from mistakes import user_error
from nodewise.results.posted_numbers import read_number


@pytest.mark.parametrize(
    ("text", "clock", "value"),
    [
        ("120ms", "step_time_s", 0.12),
        ("0.12s/step", "step_time_s", 0.12),
        ("608 images/s", "samples_per_s", 608),
        ("152 images/s/device", "samples_per_s", 608),
        ("1,308.7 images/sec", "samples_per_s", 1308.7),
        ("5.1 steps/s", "step_time_s", 1 / 5.1),
        ("910s/epoch", "epoch_time_s", 910),
        ("38k tokens/s", "tokens_per_s", 38_000),
        ("9,500 wps", "tokens_per_s", 9_500),
        ("2 min/epoch", "epoch_time_s", 120),
        ("36 min", "epoch_time_s", 2160),  # of a run: no step takes as long
        ("2 min/step", "step_time_s", 120),
    ],
)
def test_numbers_are_read_as_they_are_posted(text, clock, value):
    posted = read_number("--one", text, 4)
    assert (posted.clock, posted.value) == (clock, pytest.approx(value))


UNREADABLE = ["", "fast", "120", "0 ms", "3 apples/pear/s", "-5ms", "1e99 s", "12,5 img/s"]
UNREADABLE += ["0,125 s", "9 ", "1:45:49", "1 h 45 min", "40 % MFU", "2 GPU-hours"]


@pytest.mark.parametrize("text", UNREADABLE)
def test_a_number_that_cannot_be_read_is_refused(text):
    assert "--one" in user_error(read_number, "--one", text, 4)

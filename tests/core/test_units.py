"""Numbers are formatted for people, and the kinds of numbers have labels."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.core.units import (
    KINDS,
    base_kind,
    kind_label,
    write_duration,
    write_number,
    write_plain,
)


@pytest.mark.parametrize(
    ("value", "unit", "written"),
    [
        (0.01234, "s", "12.3 ms"),
        (0.0009996, "s", "1.00 ms"),
        (1234.5, "s", "1,234 s"),
        (0, "B", "0 B"),
        (5_024_600, "B", "5.02 MB"),
        (0.0527, "share", "5.27 %"),
        (0.857, "accuracy", "0.857"),
        (1.618, "×", "1.62×"),
        (128.4, "times", "128"),
        (1_256_150, "", "1,256,150"),
        (None, "s", "–"),
        (math.inf, "×", "–"),
        (4335.2, "/s", "4,335"),
    ],
)
def test_numbers_are_written_with_three_digits_and_a_unit(value, unit, written):
    assert write_number(value, unit) == written


@given(st.floats(1e-6, 1e6))
def test_a_written_time_is_within_half_a_percent(seconds):
    number, unit = write_number(seconds, "s").split(" ")
    size = {"s": 1, "ms": 1e-3, "µs": 1e-6}[unit]
    assert float(number.replace(",", "")) * size == pytest.approx(seconds, rel=0.006)


@pytest.mark.parametrize(
    ("value", "written"),
    [(0.01234, "0.01234"), (8838.6, "8,839"), (9999.7, "10,000"), (-12_345.6, "-12,346"), (0, "0")],
)
def test_numbers_of_a_chart_are_written_without_an_exponent(value, written):
    assert write_plain(value) == written


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "–"),
        (0.0424, "42.4 ms"),
        (59.6, "59.6 s"),
        (457.2, "7.62 min"),
        (3571, "1 h 0 min"),
        (3700, "1 h 2 min"),
        (2e5, "2 days 7 h"),
        (3.2e9, "37,037 days 0 h"),
    ],
)
def test_durations_are_said_as_people_say_them(seconds, said):
    assert write_duration(seconds) == said


def test_a_label_says_kind_projection_and_generated_data():
    assert kind_label("measured", "official") == "measured"
    both = kind_label("measured", "generated", projected=True)
    assert both == "measured step time × steps, generated data"


@given(st.sampled_from(list(KINDS)), st.sampled_from(["", "mirror", "generated"]), st.booleans())
def test_every_label_tells_its_kind(kind, origin, projected):
    assert base_kind(kind_label(kind, origin, projected=projected)) == kind


@pytest.mark.parametrize("wrong", [kind_label, base_kind, lambda unit: write_number(1, unit)])
def test_what_is_no_kind_or_unit_is_refused(wrong):
    with pytest.raises(ValueError, match="guessed"):
        wrong("guessed")

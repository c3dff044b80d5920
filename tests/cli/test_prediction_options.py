"""Texts of options are read as people write them, or refused in one line."""

import pytest

from mistakes import user_error
from nodewise.cli.prediction import parse_batches, parse_deadline, parse_nodes, parse_price


@pytest.mark.parametrize(
    ("parse", "read"),
    [
        (parse_nodes, {"64": [64], "1-4": [1, 2, 3, 4], "8, 1-3,2": [1, 2, 3, 8]}),
        (parse_price, {"2.5": (2.5, "currency"), "1 EUR": (1.0, "EUR")}),
        (parse_batches, {None: [], "16": [16], "16, 32,": [16, 32]}),
        (parse_deadline, {"0s": 0, "90": 90, "1.5min": 90, "12h": 43_200}),
    ],
)
def test_options_are_read_as_they_are_written(parse, read):
    assert {text: parse(text) for text in read} == read


@pytest.mark.parametrize(
    ("parse", "option", "wrong"),
    [
        *((parse_nodes, "nodes", x) for x in ("", "0", "-1", "4-1", "1.5", "1-", "1,,2", "70000")),
        (parse_nodes, "nodes", "1-4096"),
        (parse_price, "price", "much"),
        *((parse_batches, "batches", x) for x in ("many", "0", "4-8")),
        *((parse_deadline, "deadline", x) for x in ("soon", "2 y", "9" * 400 + "d", "-1s")),
    ],
)
def test_an_option_that_cannot_be_read_is_refused(parse, option, wrong):
    assert f"--{option} {wrong[:40]}: must be" in user_error(parse, wrong)

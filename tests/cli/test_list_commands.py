"""The list of strategies is complete and agrees with the checks of a configuration."""

import json
import subprocess
import sys

import pytest

from nodewise.cli import list_commands
from nodewise.strategies import STRATEGIES


def test_every_strategy_is_listed_with_its_options_and_their_defaults():
    rows = {row["strategy"]: row for row in list_commands.strategy_rows()}
    assert set(rows) == set(STRATEGIES)
    for name, entry in STRATEGIES.items():
        defaults = {key: known["default"] for key, known in rows[name]["options"].items()}
        assert entry.options.model_validate(defaults) == entry.options()
        assert all(known["allowed"] for known in rows[name]["options"].values())


@pytest.mark.parametrize(
    ("strategy", "option", "allowed"),
    [
        ("async_sgd", "scale_by_staleness", "true, false"),
        ("parameter_averaging", "period", "whole number, at least 1, at most 1,000,000 or epoch"),
        ("async_sgd", "bound", "whole number, at least 0 or null"),
        ("compressed_sgd", "share", "number, more than 0, at most 1"),
        ("parameter_averaging", "optimizer_state", "kept, averaged, reset"),
    ],
)
def test_what_an_option_allows_is_told_in_words(strategy, option, allowed):
    rows = {row["strategy"]: row for row in list_commands.strategy_rows()}
    assert rows[strategy]["options"][option]["allowed"] == allowed


def test_the_command_lists_them_as_a_table_and_as_json():
    command = [sys.executable, "-m", "nodewise", "strategies"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert all(name in shown for name in STRATEGIES)
    told = subprocess.run([*command, "--json"], check=True, capture_output=True, text=True).stdout
    assert json.loads(told) == list_commands.strategy_rows()

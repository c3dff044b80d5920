"""Shared fixture of prediction tests: fit a table and query the fit with the commands."""

import pytest

import commands


@pytest.fixture
def ask(tmp_path):
    """Return a function that fits the rows of a CSV file and returns a command's JSON output."""

    def ask(header, rows, command, *options):
        table, fit = tmp_path / "mine.csv", tmp_path / "fit.json"
        table.write_text("\n".join([header, *rows]))
        commands.run("fit", table, "-o", fit)
        return commands.ask(command, fit, *options)

    return ask

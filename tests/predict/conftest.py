"""Shared fixture of prediction tests: fit a table and query the fit with the commands."""

import json

import pytest
from typer.testing import CliRunner

from nodewise.cli import app
from nodewise.core.errors import UserError


@pytest.fixture
def ask(tmp_path):
    """Return a function that fits the rows of a CSV file and returns a command's JSON output.

    It raises the error of a command that refuses.
    """

    def ask(header, rows, command, *options):
        table, fit = tmp_path / "mine.csv", tmp_path / "fit.json"
        table.write_text("\n".join([header, *rows]))
        for arguments in (["fit", table, "-o", fit], [command, fit, *options, "--json"]):
            done = CliRunner().invoke(app, [str(argument) for argument in arguments])
            if isinstance(done.exception, UserError):
                raise done.exception
            assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    return ask

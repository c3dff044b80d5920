"""Run commands of nodewise in this process."""

import json
from typing import Any

from typer.testing import CliRunner

from nodewise.cli import app
from nodewise.core.errors import UserError


def run(*words: object) -> Any:
    """Run a command that succeeds, and return its output; the error of one that fails is raised."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done


def ask(*words: object) -> Any:
    """Run a command that succeeds, and return its output as JSON."""
    return json.loads(run(*words, "--json").stdout)


def refusal(*words: object) -> str:
    """Run a command that refuses its options and prints no result; return the message."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.stdout == ""
    if isinstance(done.exception, UserError):
        return str(done.exception)
    assert done.exit_code == 2, done.exception
    return done.stderr

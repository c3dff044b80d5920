"""Horovod in results/horovod, for tests that train with it; built in minutes if not there yet."""

import os

import pytest

from nodewise.strategies.horovod import build as horovod_build


def why_not() -> str | None:
    """Build Horovod; return why it cannot be built here, which fails continuous integration."""
    reason = horovod_build.build(horovod_build.FOLDER)
    assert reason is None or "CI" not in os.environ, reason
    return reason


def make_horovod() -> None:
    """Build Horovod; skip the test where it cannot be built."""
    if reason := why_not():
        pytest.skip(reason)

"""Build Horovod in results/horovod for tests that train with it; takes minutes the first time."""

import os

import pytest

from nodewise.strategies.horovod import build as horovod_build


def why_not() -> str | None:
    """Build Horovod; return the reason if it cannot be built here, else None.

    In continuous integration, a failed build fails the test.
    """
    reason = horovod_build.build(horovod_build.FOLDER)
    assert reason is None or "CI" not in os.environ, reason
    return reason


def make_horovod() -> None:
    """Build Horovod; skip the test if it cannot be built here."""
    if reason := why_not():
        pytest.skip(reason)

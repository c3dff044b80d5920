"""Build Horovod in results/horovod for tests that train with it; the first build takes minutes."""

import os

import pytest

from nodewise.strategies.horovod import build as horovod_build


def why_not() -> str | None:
    """Build Horovod, and return why it cannot be built here, or None.

    In continuous integration, a build that fails is an error.
    """
    reason = horovod_build.build(horovod_build.FOLDER)
    assert reason is None or "CI" not in os.environ, reason
    return reason


def make_horovod() -> None:
    """Build Horovod, and skip the test if it cannot be built here."""
    if reason := why_not():
        pytest.skip(reason)

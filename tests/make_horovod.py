"""Build Horovod in results/horovod for tests that train with it; the first build takes minutes."""

import os

import pytest

from nodewise.strategies.horovod import build as horovod_build


def make_horovod() -> None:
    """Build Horovod, and skip the test if it cannot be built here.

    In continuous integration, a build that fails is an error.
    """
    reason = horovod_build.build(horovod_build.FOLDER)
    assert reason is None or "CI" not in os.environ, reason
    if reason:
        pytest.skip(reason)

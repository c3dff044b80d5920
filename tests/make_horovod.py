"""Horovod in results/horovod, for tests that train with it; built in minutes if not there yet."""

import os

import pytest

from nodewise import horovod_build


def make_horovod() -> None:
    """Build Horovod; skip the test where it cannot be built, but fail in continuous integration."""
    reason = horovod_build.build(horovod_build.FOLDER)
    if reason and "CI" not in os.environ:
        pytest.skip(reason)
    assert reason is None, reason

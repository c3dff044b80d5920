"""Import TensorFlow before the time limit of a test begins."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def imported():
    import tensorflow  # noqa: F401

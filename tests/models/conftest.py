"""TensorFlow is imported before the time of a test counts."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def imported():
    import tensorflow  # noqa: F401

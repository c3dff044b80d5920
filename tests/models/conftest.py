"""Import TensorFlow before the time limit of a test begins."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def imported():
    import tensorflow  # noqa: F401


@pytest.fixture(scope="module")
def results(tmp_path_factory, run_job):
    """Return what trains kinds of models and returns their results, see `kinds_check.Results`."""
    from kinds_check import Results

    return Results(lambda: tmp_path_factory.mktemp("kinds"), run_job)

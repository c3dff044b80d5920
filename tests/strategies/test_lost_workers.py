"""A worker that ends or fails in the middle of a job is named, not the peers that miss it."""

import re

import pytest
from training_job import Case, train

from local_job import build_library, failure, train_cases

STAR = Case("multi_worker_mirrored", 3, "frozen", {"collective": "star"})
LEAVING = 1
# errors of ranks that lose a peer; TensorFlow's own collectives print other texts
MISSED = r"Connection\w*Error|BrokenPipeError"


def end_of(run_job, out, case):
    """Return the reason why the job failed, and the logs of its workers."""
    build_library(case.strategy)
    run_job(train_cases, out, {"job": case}, train)
    logs = [path.read_text() for path in sorted((out / "job").glob("rank~*.log"))]
    return failure(out / "job")["error"], logs


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("case", "missed"),
    [
        pytest.param(STAR, MISSED, id="star"),
        pytest.param(Case("compressed_sgd", 3, "wide", {}), MISSED, marks=SLOW, id="compressed"),
        pytest.param(Case("model_parallel", 3, "normalised", {}), MISSED, marks=SLOW, id="stages"),
    ],
)
def test_a_worker_that_ends_ends_the_job(tmp_path, run_job, case, missed):
    reason, logs = end_of(run_job, tmp_path, case._replace(leaves=LEAVING))
    assert reason == f"rank {LEAVING}: ended with exit code 7"
    assert all(re.search(missed, log) for rank, log in enumerate(logs) if rank != LEAVING)


@pytest.mark.parametrize(
    "case",
    [
        # The driver, first in order, loses a connection; TensorFlow turns that into another error.
        pytest.param(STAR, id="star"),
        pytest.param(Case("horovod", 2, "wide", {}), marks=SLOW, id="horovod"),
    ],
)
def test_who_fails_of_itself_is_named(tmp_path, run_job, case):
    failing = case.nodes - 1
    reason, _ = end_of(run_job, tmp_path, case._replace(fails=failing))
    assert reason == f"rank {failing}: ArithmeticError: of itself"

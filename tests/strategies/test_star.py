"""The all-reduce through a driver: who sends how much, and how it ends without a worker.

That it trains like one process is tested with the other synchronous strategies.
"""

import json

import pipeline_job
import pytest
from pipeline_job import Case

STEPS, NODES = 6, 3
STAR = ("multi_worker_mirrored", NODES, "frozen", {"collective": "star"})
CASES = {"star": STAR, "left": (*STAR, 1), "failed": (*STAR, None, None, 2)}
AROUND = 2_000  # bytes of the lengths of messages, and of TensorFlow's barrier


@pytest.fixture(scope="module")
def folder(tmp_path_factory, run_job):
    out = tmp_path_factory.mktemp("star")
    cases = {name: Case(*case) for name, case in CASES.items()}
    run_job(pipeline_job.main, out, cases)
    return out


def test_the_driver_sends_to_all_and_the_others_to_the_driver(folder):
    driver, *others = [json.loads(path.read_text()) for path in sorted(folder.glob("star/seen~*"))]
    gradients = STEPS * 4 * (16 * 16 + 16 + 16 * 4 + 4)  # bytes, of the layers that are trained
    assert len(others) == NODES - 1
    assert len({worker["weights"] for worker in (driver, *others)}) == 1
    for way in ("sent", "received"):
        assert 2 * gradients <= driver[way] <= 2 * gradients + AROUND
        for other in others:  # in a ring all would send 4/3 of this
            assert gradients <= other[way] <= gradients + AROUND


def test_a_worker_that_ends_ends_the_job(folder):
    assert (folder / "left" / "failure.txt").read_text() == (
        "rank 1: ended with exit code 7 and no result"
    )


def test_who_fails_of_itself_is_named_not_who_lost_it(folder):
    """The driver, first in order, loses a connection, of which TensorFlow makes another error."""
    assert (folder / "failed" / "failure.txt").read_text() == "rank 2: ArithmeticError: of itself"

"""The all-reduce through a driver: how much each worker sends.

Another test checks that it trains like one process, as for other synchronous strategies.
"""

import json

import pipeline_job
import pytest
from pipeline_job import Case

STEPS, NODES = 6, 3
STAR = Case("multi_worker_mirrored", NODES, "frozen", {"collective": "star"})
AROUND = 2_000  # bytes for the lengths of messages and TensorFlow's barrier


@pytest.mark.timeout(60)
def test_the_driver_sends_to_all_and_the_others_to_the_driver(tmp_path, run_job):
    run_job(pipeline_job.main, tmp_path, {"star": STAR})
    seen = sorted(tmp_path.glob("star/seen~*"))
    driver, *others = [json.loads(path.read_text()) for path in seen]
    gradients = STEPS * 4 * (16 * 16 + 16 + 16 * 4 + 4)  # bytes of the gradients of trained layers
    assert len(others) == NODES - 1
    assert len({worker["weights"] for worker in (driver, *others)}) == 1
    for way in ("sent", "received"):
        assert 2 * gradients <= driver[way] <= 2 * gradients + AROUND
        for other in others:  # In a ring every worker would send 4/3 of this.
            assert gradients <= other[way] <= gradients + AROUND

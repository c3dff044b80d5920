"""Strategies with parameter servers: one worker trains like one process, and how jobs end.

The jobs run in real processes; see server_job.py.
"""

import re

import numpy as np
import pytest
import server_job

from local_job import failure

ASYNC, TENSORFLOWS = "async_sgd", "parameter_server"
# strategy, options, model, optimizer, float32 tolerance (larger for sums of 30,000 terms)
ONE_WORKER = {
    "async, scaled": (ASYNC, {"scale_by_staleness": True}, "net", "decaying", 1e-6),
    "async, three, bound": (ASYNC, {"servers": 3, "bound": 1}, "net", "adam", 1e-6),
    "two servers": (TENSORFLOWS, {"servers": 2}, "net", "adam", 1e-6),
    "embedding": (TENSORFLOWS, {}, "words", "adam", 1e-6),
    "cut variables": (TENSORFLOWS, {"servers": 2}, "wide", "sgd_momentum", 1e-5),
}
STATISTICS = 2  # mean and variance of the batch normalisation


@pytest.fixture(scope="module")
def trained(tmp_path_factory, run_job):
    """Return (case or "MODEL, OPTIMIZER", form, rank) -> weights and moving statistics."""
    out = tmp_path_factory.mktemp("trained")
    jobs = {}
    for case, (strategy, options, model, optimizer, _) in ONE_WORKER.items():
        job = {"model": model, "optimizer": optimizer}
        jobs[f"{model}, {optimizer}"] = job | {"strategy": "single"}
        jobs[case] = job | {"strategy": strategy, "options": options}
    jobs["pair"] = {"strategy": ASYNC, "nodes": 2, "model": "net", "optimizer": "adam"}
    server_job.run_all(run_job, out, jobs, nodes=1, steps=6)
    return {
        (name, form, rank): list(np.load(out / name / f"{form}~{rank}.npz").values())
        for name, job in jobs.items()
        for form in ("split", "fused", "agreed")
        for rank in range(job.get("nodes", 1))
    }


@pytest.mark.parametrize("case", ONE_WORKER)
def test_one_worker_trains_like_one_process(trained, case):
    """This holds for both forms, so the servers' state is reset between the two."""
    strategy, _, model, optimizer, rounding = ONE_WORKER[case]
    expected = trained[f"{model}, {optimizer}", "agreed", 0]
    for form in ("split", "fused", "agreed"):
        found = trained[case, form, 0]
        if strategy == TENSORFLOWS and form != "agreed":
            found = found[:-STATISTICS]  # Until then, the statistics are on the servers only.
        for mine, reference in zip(found, expected[: len(found)], strict=True):
            np.testing.assert_allclose(mine, reference, rtol=1e-5, atol=rounding)


def test_moving_statistics_are_averaged_over_the_workers(trained):
    before, after = (
        [trained["pair", form, r][-STATISTICS:] for r in (0, 1)] for form in ("fused", "agreed")
    )
    for one, other, agreed, agreed_too in zip(*before, *after, strict=True):
        assert not np.allclose(one, other)
        np.testing.assert_allclose(agreed, (one + other) / 2, rtol=1e-6)
        np.testing.assert_array_equal(agreed, agreed_too)


# Optimizers that need whole layers are refused if servers have parts.
CLIPPED = {"model": "net", "optimizer": "clipped", "options": {"servers": 2}}, ".*clipnorm"
ENDS = {  # two workers, 0 and 1, and a server, 2
    ASYNC: [
        *(({"hit": rank}, f"rank {rank}: killed by SIGKILL") for rank in (1, 2)),
        ({"nodes": 1, "model": "net", "optimizer": "broken"}, "rank 1: ended with exit code 1"),
        CLIPPED,
    ],
    TENSORFLOWS: [  # rank 0 is the coordinator
        ({"nodes": 1, "model": "net", "optimizer": "decaying"}, ".*gradient_accumulation_steps"),
        *(({"hit": rank}, f"rank {rank}: killed by SIGKILL") for rank in range(3)),
        ({"model": "mislabelled", "optimizer": "adam"}, ".*Received a label value of"),
        CLIPPED,
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [ASYNC, TENSORFLOWS])
def test_who_is_gone_or_refuses_ends_the_job_and_is_named(tmp_path, run_job, strategy):
    jobs = {str(number): job for number, (job, _) in enumerate(ENDS[strategy])}
    server_job.run_all(run_job, tmp_path, jobs, strategy=strategy, nodes=2)
    for number, (job, said) in enumerate(ENDS[strategy]):
        end = failure(tmp_path / str(number))
        assert re.match(said, end["error"]), job
        assert end["seconds"] < 30, job  # The job has 120 s.

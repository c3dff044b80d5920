"""ParameterServerStrategy in real processes: what is applied, how it ends, who waits for whom."""

import itertools
import json
import signal

import async_sgd_job
import numpy as np
import pytest

STEPS = 20
ONE_WORKER = {  # servers, model, optimizer; what float32 may round, more in sums of 30,000
    "one server": (1, "net", "sgd_momentum", 1e-6),
    "two servers": (2, "net", "adam", 1e-6),
    "embedding": (1, "words", "adam", 1e-6),
    "cut variables": (2, "wide", "sgd_momentum", 1e-5),
}
STRAGGLER = [0.0, 0.0, 0.05]


@pytest.fixture(scope="module")
def run(run_job):
    """Return a function: what the workers of each job saw, or how it ended.

    By default a job has two workers and a server.
    """

    def run(out, *jobs):
        usual = {"strategy": "parameter_server", "nodes": 2}
        asked = [async_sgd_job.Asked.model_validate(usual | job) for job in jobs]
        return json.loads(run_job(async_sgd_job.main, out, asked))

    return run


@pytest.fixture(scope="module")
def three(tmp_path_factory, run):
    """Workers of a job in which every update takes 1 from every weight; the last one is slow."""
    job = {"nodes": 3, "options": {"servers": 2}, "sleep_s": STRAGGLER}
    return run(tmp_path_factory.mktemp("three"), job)[0]


@pytest.fixture(scope="module")
def busy(tmp_path_factory, run):
    """Workers of a job whose steps take a while."""
    job = {"nodes": 3, "model": "wide", "optimizer": "adam"}
    return run(tmp_path_factory.mktemp("busy"), job)[0]


@pytest.mark.alone
@pytest.mark.slow
def test_every_gradient_is_applied_once_and_all_agree_in_the_end(three):
    """After the split form the servers were set back to the beginning."""
    assert [worker["final_age"] for worker in three] == [3 * STEPS] * 3
    assert len({worker["sha256"] for worker in three}) == 1


@pytest.mark.alone
@pytest.mark.slow
def test_an_update_is_as_stale_as_others_came_before_it(three, busy):
    """Where steps take a while, some come between."""
    for workers in (three, busy):
        staleness = [worker["observed"]["staleness"] for worker in workers]
        assert [len(of_steps) for of_steps in staleness] == [STEPS] * 3
        assert all(0 <= of_step < 3 * STEPS for of_steps in staleness for of_step in of_steps)
    assert sum(map(sum, staleness)) > 0


@pytest.mark.alone
@pytest.mark.slow
def test_nobody_waits_for_a_straggler(three):
    *quick, slow = three
    assert max(worker["ended"] for worker in quick) < slow["begun"][-1]


@pytest.fixture(scope="module")
def trained(tmp_path_factory, run):
    """(strategy, case, form) -> weights and moving statistics of the only worker after it."""
    out = tmp_path_factory.mktemp("trained")
    jobs = []
    for servers, model, optimizer, _ in ONE_WORKER.values():
        job = {"nodes": 1, "model": model, "steps": 6, "optimizer": optimizer}
        jobs += [job | {"strategy": "single"}, job | {"options": {"servers": servers}}]
    # more servers than nodes are refused where options are checked, which this script passes over
    run(out, *jobs)
    return {
        (strategy, case, form): list(np.load(out / f"{number}~{form}~0.npz").values())
        for number, (case, strategy) in enumerate(itertools.product(ONE_WORKER, ("single", None)))
        for form in ("split", "fused", "agreed")
    }


@pytest.mark.parametrize("case", ONE_WORKER)
def test_one_worker_trains_like_one_process(trained, case):
    expected, rounding = trained["single", case, "agreed"], ONE_WORKER[case][-1]
    for form in ("split", "fused"):
        weights = trained[None, case, form][:-2]  # statistics are not the servers' until then
        for mine, reference in zip(weights, expected[:-2], strict=True):
            np.testing.assert_allclose(mine, reference, rtol=1e-5, atol=rounding)
    for mine, reference in zip(trained[None, case, "agreed"], expected, strict=True):
        np.testing.assert_allclose(mine, reference, rtol=1e-5, atol=rounding)


def test_the_optimizers_of_these_tests_train_differently(trained):
    one, other = (trained["single", case, "fused"][0] for case in ("one server", "two servers"))
    assert np.abs(one - other).max() > 0.01


@pytest.mark.slow
def test_no_server_has_nearly_all(tmp_path, run):
    job = {"model": "wide", "steps": 2, "options": {"servers": 2}, "optimizer": "adam"}
    ((coordinator, _),) = run(tmp_path, job)
    one, other = coordinator["held"].values()
    assert one + other == 5 * 30_000 + 3 * 30_000 + 30_000 * 3 + 3
    assert 0.6 < one / other < 1.6


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["parameter_server", "async_sgd"])
def test_optimizers_that_need_whole_layers_are_refused_if_servers_have_parts(
    tmp_path, run, strategy
):
    job = {"strategy": strategy, "model": "net", "optimizer": "clipped", "steps": 2}
    refused, trained = run(tmp_path, job | {"options": {"servers": 2}}, job)
    assert refused["error"].startswith("the optimizer's clipnorm needs the gradients of all nodes")
    assert len(trained) == 2


ENDS = {
    "server killed": ({"hit": 2}, "rank 2: killed by SIGKILL"),
    "worker killed": ({"hit": 1}, "rank 1: killed by SIGKILL"),
    "coordinator killed": ({"hit": 0}, "rank 0: killed by SIGKILL"),
    "server stuck": (
        {"hit": 2, "hit_with": signal.SIGSTOP, "timeout_s": 4},
        "worker 2 stopped answering for ",
    ),
    "worker stuck": (
        {"hit": 1, "hit_with": signal.SIGSTOP, "timeout_s": 4},
        "worker 1 stopped answering for ",
    ),
}


@pytest.mark.alone
@pytest.mark.slow
def test_who_is_gone_or_stuck_ends_the_job_and_who_is_slow_does_not(tmp_path, run):
    slow = {"sleep_s": [0, 0.3], "timeout_s": 4}
    *ended, finished = run(tmp_path, *(job for job, _ in ENDS.values()), slow)
    for name, end in zip(ENDS, ended, strict=True):
        job, said = ENDS[name]
        assert said in end["error"], name
        assert end["seconds"] < 2 * job.get("timeout_s", 2) + 3, name
    assert [worker["final_age"] for worker in finished] == [2 * STEPS] * 2
    # the quick one waited for longer than for somebody who is stuck
    assert finished[1]["ended"] - finished[0]["ended"] > slow["timeout_s"]

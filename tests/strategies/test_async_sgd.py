"""Asynchronous SGD in real processes: what is applied when, how stale it is, who waits for whom."""

import json
import re
import signal
from bisect import bisect_right

import async_sgd_job
import numpy as np
import pytest

STEPS = 20
EQUAL = [0.03] * 3
UNEQUAL = [0.002, 0.002, 0.02]


@pytest.fixture(scope="module")
def run(run_job):
    """Return a function: what the workers of each job saw, or how it ended."""

    def run(out, *jobs):
        asked = [async_sgd_job.Asked.model_validate(job) for job in jobs]
        return json.loads(run_job(async_sgd_job.main, out, asked))

    return run


def total(workers, name="staleness"):
    return [value for worker in workers for value in worker["observed"].get(name, [])]


CLOCKED = {
    "plain": {"nodes": 3, "sleep_s": EQUAL, "steps": 40},
    "straggler": {"nodes": 3, "sleep_s": UNEQUAL},
    "bound": {"nodes": 3, "sleep_s": UNEQUAL, "options": {"bound": 2}},
    "lockstep": {"nodes": 3, "sleep_s": UNEQUAL, "options": {"bound": 0, "servers": 2}},
    "soft": {"nodes": 3, "options": {"updates": 2}},
    "soft, uneven": {"nodes": 4, "options": {"updates": 3}, "steps": 5},
    "scaled": {"nodes": 3, "options": {"scale_by_staleness": True}},
    "soft, scaled": {"nodes": 3, "options": {"updates": 2, "scale_by_staleness": True}},
}


@pytest.fixture(scope="module")
def clocked(tmp_path_factory, run):
    """Job by name; in all of them every update takes 1 from every weight, times its rate."""
    results = run(tmp_path_factory.mktemp("clocked"), *CLOCKED.values())
    return dict(zip(CLOCKED, results, strict=True))


@pytest.mark.alone
@pytest.mark.slow
def test_every_gradient_is_applied_once_and_all_agree_in_the_end(clocked):
    for name in ("plain", "straggler", "bound", "lockstep"):
        workers = clocked[name]
        pushed = 3 * CLOCKED[name].get("steps", STEPS)
        assert [worker["final_age"] for worker in workers] == [pushed] * 3
        assert len({worker["sha256"] for worker in workers}) == 1
        assert len(total(workers)) == pushed


@pytest.mark.alone
@pytest.mark.slow
def test_staleness_is_what_the_weights_tell(clocked):
    """The weights given back are as old as those taken, plus what came between, plus its own."""
    for name in ("plain", "straggler"):
        for worker in clocked[name]:
            told = np.diff(worker["ages"]) - 1
            assert worker["observed"]["staleness"] == told.tolist()


@pytest.mark.alone
@pytest.mark.slow
def test_equal_workers_are_stale_by_the_number_of_the_others(clocked):
    warm = [s for worker in clocked["plain"] for s in worker["observed"]["staleness"][5:-5]]
    assert np.mean(warm) == pytest.approx(3 - 1, rel=0.2)


@pytest.mark.alone
@pytest.mark.slow
def test_nobody_waits_for_a_straggler_unless_told_to(clocked):
    *quick, slow = clocked["straggler"]
    assert max(worker["ended"] for worker in quick) < slow["begun"][STEPS // 2]
    assert all(worker["observed"].keys() == {"staleness"} for worker in (*quick, slow))


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize(("name", "bound"), [("bound", 2), ("lockstep", 0)])
def test_a_bound_is_reached_and_never_exceeded(clocked, name, bound):
    workers = clocked[name]
    assert max(total(workers, "lead")) == bound
    assert len(total(workers, "lead")) == 3 * STEPS
    assert max(total(workers)) <= (3 - 1) * (2 * bound + 1)
    for worker in workers:
        for done, moment in enumerate(worker["begun"]):
            # a step that another has begun is one more than it has done, at most
            others = [bisect_right(other["begun"], moment) for other in workers]
            assert min(others) >= done - bound


@pytest.mark.alone
@pytest.mark.slow
def test_in_lockstep_the_parts_of_all_servers_have_all_gradients(clocked):
    for worker in clocked["lockstep"]:
        assert worker["ages"] == worker["last_ages"] == [3 * step for step in range(STEPS + 1)]


@pytest.mark.alone
@pytest.mark.slow
def test_waits_are_counted_where_they_happen(clocked):
    *quick, slow = clocked["bound"]
    for worker in quick:
        waits = worker["observed"]["held_s"]
        assert len(waits) > STEPS / 2
        assert np.median(waits) == pytest.approx(UNEQUAL[2] - UNEQUAL[0], rel=0.5)
    assert "held_s" not in slow["observed"]


@pytest.mark.alone
@pytest.mark.slow
def test_soft_synchronisation_applies_once_for_so_many_gradients(clocked):
    assert clocked["soft"][0]["final_age"] == 3 * STEPS / 2
    # 20 gradients are 6 updates of 3; the last 2 wait for a third that never comes
    assert clocked["soft, uneven"][0]["final_age"] == 4 * 5 // 3


@pytest.mark.alone
@pytest.mark.slow
def test_soft_synchronisation_waits_for_nobody_and_is_less_stale(clocked):
    for worker in clocked["soft"]:
        assert len(worker["observed"]["staleness"]) == STEPS
    assert np.mean(total(clocked["soft"])) <= (3 - 1) / 2 + 0.5


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize(("name", "gathered"), [("scaled", 1), ("soft, scaled", 2)])
def test_the_learning_rate_is_divided_by_staleness(clocked, name, gathered):
    staleness = np.array(total(clocked[name]))
    assert staleness.max() > 1
    moved = np.sum(1 / np.maximum(1, staleness)) / gathered
    assert clocked[name][0]["final_age"] == pytest.approx(moved, rel=1e-4)


OPTIMIZERS = ("sgd_momentum", "adam", "decaying")
WAYS = {
    "one server": ({"servers": 1}, "sgd_momentum"),
    "one server, scaled": ({"servers": 1, "scale_by_staleness": True}, "decaying"),
    "two servers": ({"servers": 2}, "adam"),
    "three servers, bound": ({"servers": 3, "bound": 1}, "sgd_momentum"),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory, run):
    """(way or optimizer, form, rank) -> weights and moving statistics of a worker after it."""
    out = tmp_path_factory.mktemp("trained")
    jobs = {name: {"strategy": "single", "optimizer": name} for name in OPTIMIZERS}
    jobs |= {way: {"options": chosen, "optimizer": name} for way, (chosen, name) in WAYS.items()}
    jobs["pair"] = {"nodes": 2, "optimizer": "adam"}
    run(out, *({"nodes": 1, "model": "net", "steps": 6} | job for job in jobs.values()))
    return {
        (name, form, rank): list(np.load(out / f"{number}~{form}~{rank}.npz").values())
        for number, (name, job) in enumerate(jobs.items())
        for form in ("split", "fused", "agreed")
        for rank in range(job.get("nodes", 1))
    }


@pytest.mark.parametrize("way", WAYS)
def test_one_worker_trains_like_one_process(trained, way):
    """In both forms, so the servers' state was put back to the beginning between the two."""
    expected = trained[WAYS[way][1], "fused", 0]
    for form in ("split", "fused", "agreed"):
        for mine, reference in zip(trained[way, form, 0], expected, strict=True):
            np.testing.assert_allclose(mine, reference, rtol=1e-5, atol=1e-6)


def test_the_optimizers_of_these_tests_train_differently(trained):
    first, second, third = (trained[optimizer, "fused", 0][0] for optimizer in OPTIMIZERS)
    assert np.abs(first - second).max() > 0.01
    assert np.abs(first - third).max() > 0.01


def test_moving_statistics_are_averaged_over_the_workers(trained):
    before, after = (
        [trained["pair", form, r][-2:] for r in (0, 1)] for form in ("fused", "agreed")
    )
    for one, other, agreed, agreed_too in zip(*before, *after, strict=True):
        assert not np.allclose(one, other)
        np.testing.assert_allclose(agreed, (one + other) / 2, rtol=1e-6)
        np.testing.assert_array_equal(agreed, agreed_too)


ENDS = {
    "server killed": ({"nodes": 2, "hit": 2}, "rank 2: killed by SIGKILL"),
    "worker killed": ({"nodes": 2, "hit": 1}, "rank 1: killed by SIGKILL"),
    "server fails": (
        {"nodes": 1, "model": "net", "optimizer": "broken"},
        "rank 1: ended with exit code 1 and no result",
    ),
    "server stuck": (
        {"nodes": 2, "hit": 2, "hit_with": signal.SIGSTOP, "timeout_s": 2},
        "worker 2 stopped answering for [2-8] s",
    ),
    "worker stuck": (
        {"nodes": 2, "hit": 1, "hit_with": signal.SIGSTOP, "timeout_s": 2},
        "worker 1 stopped answering for [2-8] s",
    ),
}


@pytest.mark.alone
@pytest.mark.slow
def test_who_is_gone_or_stuck_ends_the_job_and_who_is_slow_does_not(tmp_path, run):
    slow = {"nodes": 2, "sleep_s": [0, 0.2], "timeout_s": 2}
    *ended, finished = run(tmp_path, *(job for job, _ in ENDS.values()), slow)
    for name, end in zip(ENDS, ended, strict=True):
        job, said = ENDS[name]
        assert re.match(said, end["error"]), name
        assert end["seconds"] < 2 * job.get("timeout_s", 2) + 3, name
    assert [worker["final_age"] for worker in finished] == [2 * STEPS] * 2
    # the quick one waited for longer than for somebody who is stuck
    assert finished[1]["ended"] - finished[0]["ended"] > slow["timeout_s"]

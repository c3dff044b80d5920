"""Strategies with servers in real processes: updates, their staleness, and who waits for whom."""

from bisect import bisect_right

import numpy as np
import pytest
import server_job

from local_job import results

pytestmark = [pytest.mark.alone, pytest.mark.slow]

STEPS = 20
UNEQUAL = [0.002, 0.002, 0.06]
TENSORFLOWS = {"strategy": "parameter_server", "nodes": 3, "options": {"servers": 2}}


def total(workers, name="staleness"):
    return [value for worker in workers for value in worker["observed"].get(name, [])]


CLOCKED = {
    "plain": {"nodes": 3, "sleep_s": [0.03] * 3, "steps": 40},
    "straggler": {"nodes": 3, "sleep_s": UNEQUAL},
    "bound": {"nodes": 3, "sleep_s": UNEQUAL, "options": {"bound": 2}},
    "lockstep": {"nodes": 3, "sleep_s": UNEQUAL, "options": {"bound": 0, "servers": 2}},
    "soft": {"nodes": 3, "options": {"updates": 2}},
    "soft, uneven": {"nodes": 4, "options": {"updates": 3}, "steps": 5},
    "scaled": {"nodes": 3, "options": {"scale_by_staleness": True}},
    "soft, scaled": {"nodes": 3, "options": {"updates": 2, "scale_by_staleness": True}},
    "tensorflow": TENSORFLOWS | {"sleep_s": [0.0, 0.0, 0.05]},
    "tensorflow, wide": TENSORFLOWS | {"model": "wide", "optimizer": "adam"},
}


@pytest.fixture(scope="module")
def clocked(tmp_path_factory, run_job):
    """Return the results by job; an update takes 1, times its rate, from each weight."""
    out = tmp_path_factory.mktemp("clocked")
    server_job.run_all(run_job, out, CLOCKED)
    return {name: results(out / name) for name in CLOCKED}


def test_every_gradient_is_applied_once_and_all_agree_in_the_end(clocked):
    for name in ("plain", "straggler", "bound", "lockstep", "tensorflow"):
        workers = clocked[name]
        pushed = 3 * CLOCKED[name].get("steps", STEPS)
        assert [worker["final_age"] for worker in workers] == [pushed] * 3
        assert len({worker["sha256"] for worker in workers}) == 1
        assert len(total(workers)) == pushed


def test_staleness_is_what_the_weights_tell(clocked):
    """Weights after a step are older than before by the updates in between, plus its own."""
    for name in ("plain", "straggler"):
        for worker in clocked[name]:
            told = np.diff(worker["ages"]) - 1
            assert worker["observed"]["staleness"] == told.tolist()


def test_equal_workers_are_stale_by_the_number_of_the_others(clocked):
    warm = [s for worker in clocked["plain"] for s in worker["observed"]["staleness"][5:-5]]
    assert np.mean(warm) == pytest.approx(3 - 1, rel=0.3)


def test_nobody_waits_for_a_straggler_unless_told_to(clocked):
    *quick, slow = clocked["straggler"]
    assert max(worker["ended"] for worker in quick) < slow["begun"][STEPS // 2]
    assert all(worker["observed"].keys() == {"staleness"} for worker in (*quick, slow))
    *quick, slow = clocked["tensorflow"]
    assert max(worker["ended"] for worker in quick) < slow["begun"][-1]


def test_steps_of_tensorflow_that_take_a_while_are_stale(clocked):
    staleness = total(clocked["tensorflow, wide"])
    assert len(staleness) == 3 * STEPS
    assert all(0 <= of_step < 3 * STEPS for of_step in staleness)
    assert sum(staleness) > 0


def test_no_server_of_tensorflow_has_nearly_all(clocked):
    one, other = clocked["tensorflow, wide"][0]["held"].values()
    assert one + other == 5 * 30_000 + 3 * 30_000 + 30_000 * 3 + 3
    assert 0.6 < one / other < 1.6


@pytest.mark.parametrize(("name", "bound"), [("bound", 2), ("lockstep", 0)])
def test_a_bound_is_reached_and_never_exceeded(clocked, name, bound):
    workers = clocked[name]
    assert max(total(workers, "lead")) == bound
    assert len(total(workers, "lead")) == 3 * STEPS
    assert max(total(workers)) <= (3 - 1) * (2 * bound + 1)
    for worker in workers:
        for done, moment in enumerate(worker["begun"]):
            # A step that another worker has begun is at most one more than it has finished.
            others = [bisect_right(other["begun"], moment) for other in workers]
            assert min(others) >= done - bound


def test_in_lockstep_the_parts_of_all_servers_have_all_gradients(clocked):
    for worker in clocked["lockstep"]:
        assert worker["ages"] == worker["last_ages"] == [3 * step for step in range(STEPS + 1)]


def test_waits_are_counted_where_they_happen(clocked):
    *quick, slow = clocked["bound"]
    for worker in quick:
        waits = worker["observed"]["held_s"]
        assert len(waits) > STEPS / 2
        assert np.median(waits) == pytest.approx(UNEQUAL[2] - UNEQUAL[0], rel=0.5)
    assert "held_s" not in slow["observed"]


def test_soft_synchronisation_applies_once_for_so_many_gradients(clocked):
    assert clocked["soft"][0]["final_age"] == 3 * STEPS / 2
    # 20 gradients give 6 updates of 3; the last 2 wait for a third one that never comes.
    assert clocked["soft, uneven"][0]["final_age"] == 4 * 5 // 3


def test_soft_synchronisation_waits_for_nobody_and_is_less_stale(clocked):
    for worker in clocked["soft"]:
        assert len(worker["observed"]["staleness"]) == STEPS
    assert np.mean(total(clocked["soft"])) <= (3 - 1) / 2 + 0.5


@pytest.mark.parametrize(("name", "gathered"), [("scaled", 1), ("soft, scaled", 2)])
def test_the_learning_rate_is_divided_by_staleness(clocked, name, gathered):
    staleness = np.array(total(clocked[name]))
    assert staleness.max() > 1
    moved = np.sum(1 / np.maximum(1, staleness)) / gathered
    assert clocked[name][0]["final_age"] == pytest.approx(moved, rel=1e-4)

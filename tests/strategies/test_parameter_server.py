"""ParameterServerStrategy in real processes: updates, the end of jobs, and who waits for whom."""

import async_sgd_job
import pytest

pytestmark = [pytest.mark.alone, pytest.mark.slow]

STEPS = 20
STRAGGLER = [0.0, 0.0, 0.05]


def run(run_job, out, job):
    """Return the observations of a job's workers; by default it has two workers and one server."""
    (seen,) = async_sgd_job.run_all(run_job, out, [job], strategy="parameter_server", nodes=2)
    return seen


@pytest.fixture(scope="module")
def three(tmp_path_factory, run_job):
    """Return workers of a job whose updates take 1 from every weight; the last worker is slow."""
    job = {"nodes": 3, "options": {"servers": 2}, "sleep_s": STRAGGLER}
    return run(run_job, tmp_path_factory.mktemp("three"), job)


@pytest.fixture(scope="module")
def busy(tmp_path_factory, run_job):
    """Return workers of a job whose steps take a while."""
    job = {"nodes": 3, "model": "wide", "optimizer": "adam"}
    return run(run_job, tmp_path_factory.mktemp("busy"), job)


def test_every_gradient_is_applied_once_and_all_agree_in_the_end(three):
    """After the split form, the servers were reset to the initial weights."""
    assert [worker["final_age"] for worker in three] == [3 * STEPS] * 3
    assert len({worker["sha256"] for worker in three}) == 1


def test_an_update_is_as_stale_as_others_came_before_it(three, busy):
    """If steps take a while, updates of others come between."""
    for workers in (three, busy):
        staleness = [worker["observed"]["staleness"] for worker in workers]
        assert [len(of_steps) for of_steps in staleness] == [STEPS] * 3
        assert all(0 <= of_step < 3 * STEPS for of_steps in staleness for of_step in of_steps)
    assert sum(map(sum, staleness)) > 0


def test_nobody_waits_for_a_straggler(three):
    *quick, slow = three
    assert max(worker["ended"] for worker in quick) < slow["begun"][-1]


def test_no_server_has_nearly_all(tmp_path, run_job):
    job = {"model": "wide", "steps": 2, "options": {"servers": 2}, "optimizer": "adam"}
    coordinator, _ = run(run_job, tmp_path, job)
    one, other = coordinator["held"].values()
    assert one + other == 5 * 30_000 + 3 * 30_000 + 30_000 * 3 + 3
    assert 0.6 < one / other < 1.6

"""Models of any kind train with any strategy as in one process, or are refused in one line.

`kinds_check` says what must be equal. In `make test-all` each kind meets one process and one
strategy. `make test-matrix` tests every kind with all strategies on two and three workers.
"""

import json
import time

import measured_job
import pytest
from kinds_check import NATIVE, SERVED, SINGLE, Results, assert_right, case_of, verdicts

from kinds import KINDS, groups

WITHIN_S = 1500
MATRIX = [
    case_of(strategy, nodes, split=nodes < 3)
    for strategy in (
        *("custom_loop", "mpi", "horovod", "compressed_sgd", "parameter_averaging"),
        *(*SERVED, *NATIVE),
    )
    for nodes in ((1, 2, 3) if strategy in SERVED else (2, 3))
]
GROUPS = groups()

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def results(tmp_path_factory, run_job):
    """Return what trains kinds of models and returns their results, see `Results`."""
    return Results(lambda: tmp_path_factory.mktemp("kinds"), run_job, WITHIN_S)


@pytest.mark.timeout(WITHIN_S)
def test_one_process_is_fit(results):
    assert_right(verdicts(results, SINGLE, KINDS), SINGLE)


@pytest.mark.parametrize(("strategy", "kinds"), GROUPS.items(), ids=GROUPS)
def test_two_workers_are_one_process(results, strategy, kinds):
    case = case_of(strategy, 2)
    assert_right(verdicts(results, case, kinds), case)


def test_a_kind_is_measured_from_a_user_s_file_to_a_record(tmp_path, run_job):
    # `fit` cannot test a GAN or a stateful model, either
    told = {"gan": False, "ragged": True, "stateful": False, "two_inputs": True}
    printed = run_job(measured_job.main, tmp_path, told, timeout_s=250)
    for kind, (status, reason, tested) in json.loads(printed).items():
        assert (status, tested) == ("ok", told[kind]), (kind, reason)


@pytest.mark.matrix
@pytest.mark.timeout(2 * WITHIN_S)
@pytest.mark.parametrize("case", MATRIX, ids=lambda case: f"{case.strategy}-{case.nodes}")
def test_every_strategy_is_one_process(results, case, capsys):
    """Print a row for each kind, so that the table of a strategy is one column."""
    began = time.monotonic()
    results(case, KINDS)
    took_s = time.monotonic() - began
    told = verdicts(results, case, KINDS)
    with capsys.disabled():
        print(f"\n{case.strategy} on {case.nodes}, trained in {took_s:.0f} s:")
        for kind in KINDS:
            print(f"  {kind:20} {told[kind].splitlines()[-1]}")
    assert_right(told, case)

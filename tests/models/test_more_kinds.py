"""The other groups of kinds, see test_kinds.py, for a second process of tests."""

import pytest
from kinds_check import NATIVE, SERVED, SINGLE, assert_right, case_of, verdicts

from kinds import groups

GROUPS = {name: groups()[name] for name in (*NATIVE, *SERVED, "parameter_averaging")}

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("strategy", "kinds"), GROUPS.items(), ids=GROUPS)
def test_one_process_is_fit(results, strategy, kinds):
    assert_right(verdicts(results, SINGLE, kinds), SINGLE)


@pytest.mark.parametrize(("strategy", "kinds"), GROUPS.items(), ids=GROUPS)
def test_two_workers_are_one_process(results, strategy, kinds):
    case = case_of(strategy, 2)
    assert_right(verdicts(results, case, kinds), case)

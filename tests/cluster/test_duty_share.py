"""When does a node count as held to its share?"""

import pytest

from nodewise.cluster.duty_share import Share, why_not_held


def share(**changes):
    facts = {"node": 0, "asked": 0.2, "got": 0.2, "withheld": 0.0, "stopping": 0.0}
    return Share(**(facts | {"seconds": 10.0, "seconds_outside": 0} | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"got": 0.0},  # The node did not want more.
        {"got": 0.185, "withheld": 0.015},
        {"got": 0.215},
        {"seconds_outside": 3},
        # It is too early to tell.
        {"got": 0.05, "withheld": 0.15, "seconds": 2.9, "seconds_outside": 2},
    ],
)
def test_held(changes):
    assert why_not_held([share(**changes)]) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"got": 0.175, "withheld": 0.025},
        {"got": 0.1, "withheld": 0.025},  # The node wanted part of its share and did not get it.
        {"got": 0.225},
        {"seconds_outside": 4},
        {"got": 0.05, "withheld": 0.15, "seconds": 3.0, "seconds_outside": 3},
    ],
)
def test_not_held(changes):
    assert "node 0 got" in why_not_held([share(**changes)])


def test_the_farthest_node_is_named_in_one_line():
    shares = [share(), share(node=1, withheld=0.03), share(node=2, got=0.127, withheld=0.073)]
    reason = why_not_held(shares)
    assert reason.startswith("node 2 got 0.127 of a core instead of 0.200 (")
    assert "too busy or has too few cores" in reason
    assert "\n" not in reason

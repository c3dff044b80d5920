"""A block is outside the gates if, and only if, the machine was not what it should be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import make_records as make
from nodewise import gates
from nodewise.records import Conditions, NodeUsage

NOTHING = dict.fromkeys(NodeUsage.model_fields, 0)


def failed(shares=(), cores=2, **changes):
    seen = Conditions.model_validate(make.conditions(10, **changes))
    return gates.failed(seen, shares, cores=cores)


def node(cpu_s):
    return NOTHING | {"cpu_s": cpu_s}


def test_a_quiet_machine_passes():
    assert failed() == []
    assert failed(shares=[0.2, 0.2], nodes=[node(2.05), node(0.1)]) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"reference_after_us": 6200}, "the reference step took 13% more after the block"),
        ({"reference_after_us": 4800}, "the reference step took 13% less after the block"),
        ({"stolen_s": 0.5}, "the machine's host took 2% of the cores' time"),
        ({"foreign_cpu_s": 3.0}, "other processes used 15% of the cores' time"),
        ({"nodes": [node(2.0), node(3.0)]}, "node 1 used 0.300 of a core instead of 0.2"),
    ],
)
def test_each_gate_names_what_failed_it(changes, said):
    (reason,) = failed(shares=[0.2, 0.2] if "nodes" in changes else [], **changes)
    assert reason.startswith(said)


@given(st.floats(0, 100), st.integers(1, 64))
def test_foreign_load_is_judged_by_the_whole_machine(foreign_cpu_s, cores):
    outside = bool(failed(foreign_cpu_s=foreign_cpu_s, cores=cores))
    assert outside == (foreign_cpu_s > gates.FOREIGN * 10 * cores)


def test_usage_between_two_readings_is_never_negative():
    earlier = NodeUsage.model_validate(node(3.0))
    assert (NodeUsage.model_validate(node(2.0)) - earlier).cpu_s == 0
    assert (NodeUsage.model_validate(node(5.0)) - earlier).cpu_s == 2

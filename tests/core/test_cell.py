"""Cells have readable ids; those that cannot be are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import make_records as make
from nodewise.cluster import cluster_of

names = st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True)


@given(names, names, names, st.integers(1, 10**6), st.integers(1, 64), st.integers(0, 99))
def test_an_id_spells_out_the_axes(experiment, model, strategy, batch, nodes, repeat):
    axes = {"experiment": experiment, "model": model, "strategy": strategy}
    axes |= {"batch": batch, "nodes": nodes, "repeat": repeat}
    cell = make.cell(**axes)
    assert cell.id == f"{experiment}/{model}/{strategy}/batch~{batch}/nodes~{nodes}/repeat~{repeat}"
    assert cell.global_batch == batch * nodes


WRONG = [{"batch": 0}, {"batch": "64"}, {"batch": True}, {"nodes": 65}, {"model": "../escape"}]
WRONG += [{"model": "Fashion"}, {"repeat": -1}, {"surprise": 1}, {"extent": {}}]
WRONG += [{"extent": {"steps": 10, "epochs": 1}}, {"extent": {"steps": 1}}]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_cell_that_cannot_be_is_refused(wrong):
    with pytest.raises(ValidationError):
        make.cell(**wrong)


@pytest.mark.parametrize(("nodes", "shares"), [(2, [0.2] * 4), (4, [0.2, 0.2, 0.2, 0.1, 0.2, 0.2])])
def test_only_a_node_that_trains_is_the_slow_one(nodes, shares):
    slow = {"kind": "emulated", "slow_node": {"rank": 3, "cpu": 0.1}}
    cell = make.cell(strategy="async_sgd", servers=2, nodes=nodes, cluster=slow)
    assert cluster_of(cell).shares == shares
    assert cell.cores == pytest.approx(sum(shares))

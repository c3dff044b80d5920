"""Cell ids are readable, unique and reversible."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from nodewise.cluster import cluster_of
from nodewise.cluster.kinds.emulated import Link
from nodewise.core.cell import Cell, Extent, parse_id

names = st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True)


def make_cell(**changes: object) -> Cell:
    values: dict[str, object] = {
        "study": "ntua",
        "experiment": "steps",
        "model": "fashion_cnn",
        "dataset": "fashion_mnist",
        "strategy": "multi_worker_mirrored",
        "cluster": {"kind": "local"},
        "batch": 64,
        "nodes": 2,
        "repeat": 0,
        "extent": Extent(steps=10),
        "seed": 1,
        "time_limit_s": 60.0,
    }
    return Cell.model_validate(values | changes)


def test_the_path_of_a_cell_says_what_it_is():
    assert make_cell().id == "steps/fashion_cnn/multi_worker_mirrored/batch~64/nodes~2/repeat~0"


@given(names, names, names, st.integers(1, 10**6), st.integers(1, 64), st.integers(0, 99))
def test_an_id_spells_out_the_axes(experiment, model, strategy, batch, nodes, repeat):
    axes = {
        "experiment": experiment,
        "model": model,
        "strategy": strategy,
        "batch": batch,
        "nodes": nodes,
        "repeat": repeat,
    }
    assert parse_id(make_cell(**axes).id) == axes


@given(st.text(max_size=60))
def test_other_text_is_no_id(text):
    with pytest.raises(ValueError, match="is not a cell id"):
        parse_id(text)


def test_global_batch_is_batch_times_nodes():
    assert make_cell(batch=64, nodes=3).global_batch == 192


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch": 0},
        {"batch": "64"},
        {"batch": True},
        {"nodes": 65},
        {"model": "../escape"},
        {"model": "Fashion"},
        {"repeat": -1},
        {"surprise": 1},
    ],
)
def test_a_cell_that_cannot_be_is_refused(wrong):
    with pytest.raises(ValidationError):
        make_cell(**wrong)


@pytest.mark.parametrize(("nodes", "shares"), [(2, [0.2] * 4), (4, [0.2, 0.2, 0.2, 0.1, 0.2, 0.2])])
def test_only_a_node_that_trains_is_the_slow_one(nodes, shares):
    slow = {"kind": "emulated", "slow_node": {"rank": 3, "cpu": 0.1}}
    cell = make_cell(strategy="async_sgd", servers=2, nodes=nodes, cluster=slow)
    assert cluster_of(cell).shares == shares
    assert cell.cores == pytest.approx(sum(shares))


@pytest.mark.parametrize("extent", [{}, {"steps": 10, "epochs": 1}, {"steps": 1}, {"epochs": 0}])
def test_an_extent_is_steps_or_epochs(extent):
    with pytest.raises(ValidationError):
        Extent.model_validate(extent)


def test_the_fastest_link_is_one_that_the_kernel_can_be_told():
    """The kernel stores bytes per second in 32 bits."""
    assert Link(rate_mbit=34_000).rate_mbit * 1e6 / 8 < 2**32
    with pytest.raises(ValidationError, match="less than or equal to 34000"):
        Link(rate_mbit=35_000)

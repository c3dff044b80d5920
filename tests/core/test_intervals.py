"""Intervals contain the true value as often as they claim, whatever is repeated."""

import math

import numpy as np
import pandas as pd
import pytest

from nodewise.core.intervals import median_error, pooled_factors
from nodewise.results.tables import with_intervals


@pytest.mark.parametrize("repeats", [1, 2, 3, 10, 31])
def test_the_error_of_a_median_is_that_of_normal_values(repeats):
    samples = np.random.default_rng(2).normal(size=(40_000, repeats))
    real = np.median(samples, axis=1).std()
    assert real * 0.97 < median_error(repeats) < real * 1.12


@pytest.mark.parametrize("repeats", [2, 3, 5])
def test_groups_of_few_repeats_share_their_spread_and_hold_the_truth(repeats):
    groups = np.exp(np.random.default_rng(3).normal(0, 0.1, (2000, repeats)))
    few = [pooled_factors(groups[at : at + 6]) for at in range(0, 2000, 6)]
    held = np.abs(np.log(np.median(groups, axis=1))) < np.log(np.concatenate(few))
    assert 0.87 < held.mean() < 0.95


def test_a_group_of_one_has_no_interval():
    assert np.isnan(pooled_factors([[1.0], [2.0, 2.1]])).tolist() == [True, False]
    assert np.isnan(pooled_factors([[1.0], [2.0]])).all()


def test_one_launch_has_no_interval_and_cautions_do_not_widen_the_others(tmp_path):
    def three(nodes, flagged):
        for repeat, factor in enumerate((1.0, 1.02, 3.0 if flagged else 1.04)):
            yield nodes, repeat, factor, "foreign load" if flagged else ""

    cells = pd.DataFrame(
        [*three(1, flagged=False), *three(2, flagged=True), (3, 0, 1.0, "")],
        columns=["nodes", "repeat", "step_time_s", "flags"],
    ).assign(kind="measured", experiment="one")
    key = ["nodes", "kind", "experiment"]
    taken = {"flags": "max", "repeat": "size", "step_time_s": "median"}
    curves = cells.groupby(key, as_index=False).agg(taken).rename(columns={"repeat": "repeats"})
    ends = with_intervals(curves.assign(epoch_time_s=1.0), cells, key)
    calm, restless, alone = (ends["step_time_high_s"] / ends["step_time_s"]).tolist()
    assert calm < 1.06
    assert restless > 2
    assert math.isnan(alone)


def test_a_lone_node_whose_launches_differ_widens_its_own_interval_only():
    at = [(nodes, repeat) for nodes in (1, 2, 3) for repeat in range(3)]
    cells = pd.DataFrame(at, columns=["nodes", "repeat"]).assign(kind="emulated", experiment="one")
    cells["step_time_s"] = 1 + cells["repeat"] * cells["nodes"].eq(1).map({True: 0.5, False: 0.01})
    key = ["nodes", "kind", "experiment"]
    curves = cells.groupby(key, as_index=False)["step_time_s"].median()
    curves = curves.assign(flags="", repeats=3, epoch_time_s=1.0)
    ends = with_intervals(curves, cells, key)
    alone, *several = (ends["step_time_high_s"] / ends["step_time_s"]).tolist()
    assert alone > 1.5 and max(several) < 1.02

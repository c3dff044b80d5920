"""If several laws fit what ran, the one that predicts best is chosen."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from nodewise.predict.curve_groups import USUAL_LAWS, CurveGroup
from nodewise.predict.fit_curves import BY, CLEARLY, Choice, choose
from nodewise.predict.judge import LARGEST, try_held_out
from nodewise.predict.law import LAWS, Law
from nodewise.predict.laws.ring import RingAllReduce
from nodewise.predict.laws.star import Star
from nodewise.predict.points import Points

RING, STAR = RingAllReduce(), Star()
CHOICE = [LAWS.make(name) for name in USUAL_LAWS]
NODES = (1, 2, 3, 4, 8)
PAYLOAD = 5e6


def truth(law: Law) -> dict[str, float]:
    return dict.fromkeys((p.name for p in law.parameters), 0.0) | {
        "compute_fixed_s": 0.02,
        "compute_per_example_s": 1e-3,
        "latency_s": 1e-3,
        "seconds_per_byte": 1e-8,
    }


def points_of(law: Law, nodes=NODES, noise=0.0, seed=0) -> Points:
    chance = np.random.default_rng(seed).standard_normal(len(nodes))
    step_s = law.evaluate(truth(law), nodes, 64, PAYLOAD) * np.exp(noise * chance)
    return Points.of(nodes, 64, PAYLOAD, step_s, model="m", link="l")


def test_a_law_that_ran_is_found_from_whole_steps():
    tree = LAWS.make("tree")
    found = choose(CHOICE, points_of(tree))
    assert found.law == tree
    assert found.errors[CHOICE.index(tree)] < 0.01
    assert found.errors[0] > 0.05


@pytest.mark.parametrize("seed", range(5))
def test_what_is_expected_is_not_given_up_for_noise(seed):
    noisy = points_of(RING, nodes=(1, 2, 4, 8, 16, 32), noise=0.03, seed=seed)
    assert choose(RING.alternatives(), noisy).law == RING


@pytest.mark.parametrize("name", USUAL_LAWS)
def test_a_law_is_only_given_up_for_one_that_is_clearly_less_wrong(name):
    """Noise may hide a law that differs little from the expected one, not one that differs much."""
    truth = LAWS.make(name)
    found = choose(CHOICE, points_of(truth, noise=0.02))
    expected, right = found.errors[0], found.errors[CHOICE.index(truth)]
    if right < min(CLEARLY * expected, expected - BY):
        assert found.law != RING
    else:
        assert found.law == RING


def test_three_node_counts_choose_nothing():
    found = choose(CHOICE, points_of(STAR, nodes=(1, 2, 8)))
    assert (found.law, found.errors, str(found)) == (RING, (), "")


def test_computing_that_hides_communication_is_found():
    hidden = RingAllReduce(overlap=4)
    found = choose(RING.alternatives(), points_of(hidden, nodes=(1, 2, 4, 8, 16, 32)))
    assert found.law == hidden
    assert "overlap 4 " in str(found)


@pytest.mark.slow
def test_what_is_left_out_has_no_part_in_the_choice():
    points = points_of(RING)
    rows = pd.DataFrame(
        {
            **dict.fromkeys(("study", "experiment", "data_origin", "collective"), ""),
            "exchange": "ring",
            **{"curve": "m", "model": "m", "strategy": "s", "kind": "measured", "fitted": True},
            **{"nodes": points.nodes, "batch_per_worker": 64, "payload_bytes": PAYLOAD},
            **{"step_time_s": points.step_s, "noise": np.nan},
            **dict.fromkeys(("compute_s", "wait_s", "communicate_s"), np.nan),
        }
    )
    rows["batch_per_worker"] = 64
    foretold = []
    for factor in (1.0, 0.3, 3.0):
        at_eight = np.where(rows["nodes"] == 8, factor, 1.0)
        group = CurveGroup(RING, "l", rows.assign(step_time_s=rows["step_time_s"] * at_eight))
        (row,) = (r for r in try_held_out(group, {}, 0) if r["own"] and r["scenario"] == LARGEST)
        foretold.append(row["predicted_s"])
    assert foretold[1:] == pytest.approx([foretold[0]] * 2)


def test_a_choice_names_its_laws():
    choice = Choice((RING, replace(RING, overlap=2.0)), RING, (0.021, 0.3))
    assert str(choice) == "Ring all-reduce 2.10 %, Ring all-reduce, overlap 2 30.0 %"

"""The best number of nodes agrees with known truths; unknowns are reported."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mistakes import user_error
from nodewise.predict.answers import OBJECTIVES, Answers, TrainingJob, with_best_batch
from nodewise.predict.curve_predictions import CurvePredictions
from nodewise.predict.fit import Fit
from nodewise.predict.law import LAWS
from nodewise.predict.points import Points
from nodewise.predict.steps_to_accuracy import StepsToAccuracy
from nodewise.results.curves import Curve, Measured

PAYLOAD, EXAMPLES = 5e6, 60_000
VALUES = {"compute_fixed_s": 0.004, "compute_per_example_s": 2e-4}
VALUES |= {"latency_s": 5e-4, "seconds_per_byte": 2e-9, "turns_share": 1.0}
MEASURED = list(itertools.product((1, 2, 3, 4), (32, 64, 512)))
CURVE = Curve(
    name="a",
    clock="step_time_s",
    payload_bytes=PAYLOAD,
    measured=tuple(Measured(nodes=n, batch_per_worker=b, step_time_s=1.0) for n, b in MEASURED),
)


def known(law, values, draws=()):
    """Return a fit with the given coefficients; `draws` are further sets of coefficients."""
    points = Points.of(*np.array(MEASURED, float).T, PAYLOAD, 1.0, model="a", link="a")
    names = tuple((p.name, "a") for p in law.parameters)
    drawn = [[of.get(name, 0.0) for name, _ in names] for of in (values, *(draws or [values]))]
    return Fit(law, names, np.array(drawn), 0.0, (True,) * len(names), len(points))


def ask(nodes=range(1, 65), values=VALUES, law=None, draws=(), steps=None, **more):
    """Return the answers; `more` are the batch, the global batch and conditions of the job."""
    batch = {name: more.pop(name) for name in ("batch", "global_batch") if name in more}
    fitted = known(law or LAWS["ring"], values, draws)
    job = TrainingJob(examples=EXAMPLES, steps=steps, name="run" if steps else "epoch", **more)
    predictions = CurvePredictions([CURVE], {"a": fitted})
    return predictions.answer(CURVE, nodes, job, **batch or {"batch": 64})


def best(found, objective):
    """Return the best number of nodes, None if there is none."""
    at = found.best(objective)
    return None if at is None else found.nodes[at]


def to_accuracy(critical):
    return StepsToAccuracy(np.array([[1000, 1000 * critical]] * 3), np.zeros(3))


# --- the closed form ---


@given(
    per_example=st.floats(1e-6, 1e-2),
    latency=st.floats(1e-5, 1e-2),
    beta=st.floats(1e-11, 1e-7),
    batch=st.integers(64, 8192),
)
def test_the_fastest_of_a_ring_has_the_least_time(per_example, latency, beta, batch):
    """At a global batch G, t(n) is least at n = √((c₁G − 2Sβ)/2α)."""
    values = {"compute_per_example_s": per_example, "latency_s": latency, "seconds_per_byte": beta}
    found = ask(values=values, global_batch=batch)
    exact = np.sqrt(max(per_example * batch - 2 * PAYLOAD * beta, 0) / (2 * latency))
    around = {1, *np.clip([np.floor(exact), np.ceil(exact)], 1, 64).astype(int).tolist()}
    best = min(found.time[0, n - 1] for n in around)
    assert found.time[0, found.best("fastest")] == pytest.approx(best, rel=1e-9)


# --- the table ---


def test_quantities_follow_from_the_step_time():
    found = ask([1, 4], price=3.0, watts=90.0)
    row = found.table.iloc[1]
    epoch = row["step_s"] * EXAMPLES / (4 * 64)
    assert row["time"] == pytest.approx(epoch)
    assert row["cost"] == pytest.approx(epoch * 4 * 3.0 / 3600)
    assert row["energy"] == pytest.approx(epoch * 4 * 90 / 3600)
    assert row["speedup"] == pytest.approx(found.table["time"][0] / epoch)
    assert row["efficiency"] == pytest.approx(row["speedup"] / 4)


def test_a_run_takes_the_steps_to_its_accuracy():
    steps = to_accuracy(640)
    found = ask([1, 4], steps=steps)
    assert found.time[0] == pytest.approx(found.step_s[0] * (1000 + 640_000 / np.array([64, 256])))


def test_nodes_without_an_example_are_left_out_and_one_node_is_always_there():
    assert ask(global_batch=5).nodes.tolist() == [1, 2, 3, 4, 5]
    assert ask([8, 2, 8]).nodes.tolist() == [1, 2, 8]


def test_a_curve_that_does_not_know_one_node_has_no_answer():
    nothing = dict.fromkeys(VALUES, 0.0)
    some, few = (ask(draws=[*rows, nothing]) for rows in ([VALUES] * 2, [nothing] * 2))
    assert some.known and np.isfinite(some.table["speedup_high"]).all()
    assert not few.known and few.best("fastest") is None
    assert few.table["speedup"].isna().all() and few.sentence().startswith("Unknown")


# --- the best batch ---


def test_the_best_batch_balances_the_fixed_time_of_a_step_with_the_examples():
    """A step takes f + c·b, and E·(1 + n·b/B) examples are needed: b = √(f·B/(c·n)) is best."""
    values = {"compute_fixed_s": 0.16, "compute_per_example_s": 0.01}
    nodes, batches = [1, 4, 16, 64], range(20, 660, 5)
    asked = [
        ask(nodes, values, LAWS["none"], steps=to_accuracy(6400), batch=batch) for batch in batches
    ]
    found = with_best_batch(asked)
    assert found.batch.tolist() == [320, 160, 80, 40]
    assert (found.time[0] == np.min([one.time[0] for one in asked], axis=0)).all()
    steps = 1000 * (1 + 6400 / (64 * 40))
    assert found.time[0, -1] == pytest.approx((0.16 + 0.01 * 40) * steps)
    said = found.sentence()
    assert "16 nodes" in said and "best batch: 80 per node" in said and len(said.split()) <= 30
    without_target = [ask(nodes, batch=batch) for batch in batches]
    assert "--batches: needs --converges-like" in user_error(with_best_batch, without_target)


# --- the objectives ---


def synthetic(speedup, nodes=(1, 2, 4, 8, 16), measured=8, **job):
    """Return answers with these speed-ups, in which one node takes an hour."""
    counts, times = np.array(nodes, float), 3600 / np.array(speedup)
    steps = np.tile(times * counts, (3, 1))
    kind = np.where(counts <= measured, "fitted", "predicted")
    return Answers(
        TrainingJob(examples=1.0, **job), counts, np.ones(len(counts)), steps, kind, measured
    )


@pytest.mark.parametrize(
    ("speedup", "knee"),
    [
        ((1, 1.9, 3.5, 5.6, 7.0), 8),  # adds 0.9, 0.8, 0.525 and 0.175 a node
        ((1, 1.2, 1.5, 1.7, 1.8), 1),
        ((1, 1.9, 3.7, 7.2, 14.0), 16),
        ((1, 1.4, 2.5, 3.0, 3.1), 4),  # what adds enough later counts
        ((1, 1.5, 1.6, 1.7, 1.8), 2),  # exactly half
        ((1, 0.9, 0.8, 0.7, 0.6), 1),
    ],
)
def test_the_knee_is_the_last_number_that_adds_half_of_itself(speedup, knee):
    assert best(synthetic(speedup), "knee") == knee


def test_the_sentence_tells_gain_and_price_in_few_words():
    found = synthetic((1, 1.9, 3.5, 5.6, 7.0), measured=4)
    said = found.sentence()
    assert "5.6 times" in said and "1.4 times the price" in said and "measured up to 4" in said
    job = {"watts": 9.0, "deadline_s": 1.0, "budget": 1e-3, "price": 1.0}
    asked = synthetic((1, 1.9, 3.5, 5.6, 7.0), **job)
    for fast, told in ((2000, "2,000.0 times as fast"), (0.9, "no other number compared")):
        assert told in synthetic((1, fast), (1, 2400)).sentence()
    sentences = [found.sentence("fastest"), *map(asked.sentence, OBJECTIVES)]
    assert all(len(sentence.split()) <= 30 for sentence in sentences)


@pytest.mark.parametrize(
    ("objective", "job", "nodes"),
    [
        ("fastest", {}, 8),
        ("cheapest", {}, 1),
        ("energy", {"watts": 90.0}, 1),
        ("deadline", {"deadline_s": 1800.0}, 4),
        ("deadline", {"deadline_s": 1e4}, 1),
        ("deadline", {"deadline_s": 60.0}, None),
        ("budget", {"budget": 1.2}, 4),
        ("budget", {"budget": 0.5}, None),
    ],
)
def test_each_objective_picks_its_row(objective, job, nodes):
    found = synthetic((1, 1.9, 3.5, 5.6, 5.6), **job)
    assert best(found, objective) == nodes
    assert objective in found.job.objectives


def test_what_only_rounding_tells_apart_is_equal_and_the_fewest_nodes_are_best():
    free = ask(law=LAWS["none"], values={"compute_per_example_s": 0.87 / 64})
    assert best(free, "cheapest") == 1


def test_a_deadline_is_answered_with_the_chance_and_cost_of_the_cheapest_and_of_a_safe_number():
    draws = [VALUES] * 17 + [VALUES | {"compute_per_example_s": 4e-4}] * 3
    found = ask([1, 2, 4, 8], draws=draws, deadline_s=9.0, price=2.0, currency="EUR")
    assert best(found, "deadline") == 4
    assert found.table["chance"].tolist() == pytest.approx([0, 0, 0.85, 1])
    assert f"{found.write('cost', 2)} per epoch, chance 85 %" in found.sentence()
    assert f"(8: > 99 %, {found.write('cost', 3)})" in found.sentence()


def test_epochs_take_as_many_times_the_time_and_the_cost_of_one():
    one, ninety = ask([1, 4]), ask([1, 4], epochs=90)
    assert ninety.time == pytest.approx(90 * one.time)
    assert ninety.cost == pytest.approx(90 * one.cost)
    assert ninety.job.of_curve(CURVE).name == "90 epochs"
    assert "--epochs: needs --examples" in user_error(TrainingJob(epochs=90).of_curve, CURVE)
    for wrong in {"epochs": 0}, {"epochs": 2, "steps": to_accuracy(640)}:
        assert "--epochs" in user_error(TrainingJob, **wrong)


def test_a_deadline_or_budget_that_is_missed_names_the_closest_number():
    found = synthetic((1, 1.9, 3.5, 5.6, 7.0), deadline_s=1.0)
    assert best(found, "deadline") is None and "16 nodes" in found.sentence("deadline")
    found = synthetic((1, 1.9, 3.5, 5.6, 7.0), budget=0.1)
    assert best(found, "budget") is None and "1 node comes closest" in found.sentence("budget")


def test_an_answer_says_that_its_number_or_batch_was_not_measured():
    """Points were measured on 1 to 4 nodes with 32 to 512 examples each."""
    for nodes, batch, kind, told in (
        ((1, 4), 64, "fitted", False),
        ((1, 8), 64, "predicted", "(measured up to 4)"),
        ((1, 9), 64, "extrapolated", "(measured up to 4)"),
        ((1, 4), 1024, "predicted", "(predicted)"),
        ((1, 4), 1025, "extrapolated", "(predicted)"),
        ((1, 4), 15, "extrapolated", "(predicted)"),
    ):
        found = ask(nodes, batch=batch)
        assert found.table["kind"].iloc[-1] == kind
        assert best(found, "fastest") == nodes[-1]
        assert ("(" in found.sentence("fastest")) == bool(told)
        assert not told or told in found.sentence("fastest")
    assert "one node (predicted)" in ask((1, 4), batch=1024).sentence()

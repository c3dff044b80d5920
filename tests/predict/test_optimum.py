"""The best number of nodes agrees with closed forms and known truths; unknowns are reported."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import closed_forms
from nodewise.predict import optimum
from nodewise.predict.fit import Fit, fit
from nodewise.predict.laws.amdahl import Amdahl
from nodewise.predict.laws.halving_doubling import HalvingDoubling
from nodewise.predict.laws.none import NoExchange
from nodewise.predict.laws.parameter_server import ParameterServer
from nodewise.predict.laws.ring import RingAllReduce
from nodewise.predict.laws.star import Star
from nodewise.predict.laws.tree import BinomialTree
from nodewise.predict.objectives import listed_rows
from nodewise.predict.points import Points
from nodewise.predict.question import OBJECTIVES, Question
from nodewise.predict.steps_to_accuracy import StepsToAccuracy
from nodewise.predict.wording import in_words, ranges

PAYLOAD = 5e6
EXAMPLES = 60_000
VALUES = {
    "compute_fixed_s": 0.004,
    "compute_per_example_s": 2e-4,
    "latency_s": 5e-4,
    "seconds_per_byte": 2e-9,
    "turns_share": 1.0,
}
ONCE = np.ones((1, 2))


def known(law, values, draws=None, measured=((1, 2, 3, 4), (32, 64, 512))):
    """Return a fit with the given coefficients; `draws` are further sets of coefficients.

    The compute time of every batch, measured or not, is on the straight line.
    """
    points = Points.of(*np.array(list(itertools.product(*measured)), float).T, PAYLOAD, 1.0)
    lines = [("compute_deviation_s", line) for line in points.lines[0]]
    names = (*((name, "") for name in values), *lines)
    rows = np.array([[one.get(name, 0.0) for name, _ in names] for one in (values, *(draws or ()))])
    return Fit(law, names, rows[0], rows[1:] if draws else rows, 0.05, np.ones(len(names)), points)


def find_optimum(fitted, question, nodes, **at):
    return optimum.find_optimum(question, optimum.find_times(fitted, question, nodes, **at))


def ask(objective="epoch_time", nodes=range(1, 65), values=VALUES, law=None, **question):
    given_batch = question.keys() & {"batch", "global_batch"}
    asked = Question(
        objective, **({} if given_batch else {"batch": 64}), **{"examples": EXAMPLES} | question
    )
    return find_optimum(known(law or RingAllReduce(), values), asked, nodes, payload=PAYLOAD)


def to_accuracy(critical, target=0.9):
    return StepsToAccuracy(1000.0, 1000.0 * critical, ONCE * [1000, 1000 * critical], target)


# --- the closed forms ---

SECONDS = st.floats(1e-6, 1e-1)
COEFFICIENTS = st.fixed_dictionaries(
    {
        "compute_fixed_s": SECONDS,
        "compute_per_example_s": st.floats(1e-6, 1e-2),
        "latency_s": st.floats(1e-5, 1e-2),
        "seconds_per_byte": st.floats(1e-11, 1e-7),
        "turns_share": st.just(1.0),
    }
)


def assert_agrees(found, exact, law, values, batch_of, steps_of):
    """Check that the numeric optimum is the better integer next to the real number `exact`."""
    last = int(found.nodes[-1])
    around = {1, *(int(np.clip(near, 1, last)) for near in (np.floor(exact), np.ceil(exact)))}

    def time(n):
        return float(law.evaluate(values, n, batch_of(n), PAYLOAD)) * steps_of(n)

    values = dict.fromkeys((p.name for p in law.parameters), 0.0) | values
    best = min(time(n) for n in around)
    assert time(found.best) == pytest.approx(best, rel=1e-9)


@given(
    law=st.sampled_from([RingAllReduce(), Star(), HalvingDoubling(), BinomialTree()]),
    values=COEFFICIENTS,
    global_batch=st.integers(64, 8192),
)
def test_at_a_fixed_global_batch_the_best_whole_number_is_beside_the_closed_form(
    law, values, global_batch
):
    found = ask(law=law, values=values, global_batch=global_batch)
    exact = closed_forms.best_at_global_batch(law, values, global_batch, PAYLOAD)
    assert_agrees(found, float(exact), law, values, lambda n: global_batch / n, lambda n: 1.0)
    inside = 1 < exact < 64 and 1 < found.best < 64
    assert not inside or found.interior


@given(
    law=st.sampled_from([RingAllReduce(), Star()]),
    values=COEFFICIENTS,
    batch=st.integers(1, 1024),
    noise_nodes=st.floats(0.1, 200),
)
def test_to_an_accuracy_the_best_whole_number_is_beside_the_closed_form(
    law, values, batch, noise_nodes
):
    steps = to_accuracy(noise_nodes * batch)
    found = ask("target_time", law=law, values=values, batch=batch, steps=steps)
    exact = closed_forms.best_to_accuracy(law, values, batch, PAYLOAD, noise_nodes)
    assert_agrees(
        found, float(exact), law, values, lambda n: batch, lambda n: steps.evaluate(n * batch)
    )


@given(values=COEFFICIENTS, batch=st.integers(1, 1024))
def test_break_even_of_a_ring_is_the_closed_form_s(values, batch):
    found = ask(values=values, batch=batch)
    exact = float(closed_forms.break_even(RingAllReduce(), values, batch, PAYLOAD))
    # At the boundary both answers are right.
    assume(not np.isclose(exact, np.round(exact), rtol=1e-6))
    first = max(2, int(np.floor(exact)) + 1) if np.isfinite(exact) else 65
    assert found.break_even == (first if first <= 64 else None)


# --- what is asked ---


def test_values_are_epoch_times_costs_and_efficiencies():
    time, cost = ask(), ask("epoch_cost", price=3.0)
    step_s = RingAllReduce().evaluate(
        dict.fromkeys((p.name for p in RingAllReduce.parameters), 0.0) | VALUES, 4, 64, PAYLOAD
    )
    assert time.value[3] == pytest.approx(step_s * EXAMPLES / (4 * 64))
    assert cost.value[3] == pytest.approx(time.value[3] * 4 * 3.0 / 3600)
    efficiency = ask("efficiency")
    assert efficiency.value[0] == 1
    assert efficiency.value[3] == pytest.approx(time.value[0] / (4 * time.value[3]))


def test_without_a_price_a_cost_is_in_node_hours():
    assert ask("epoch_cost").question.unit == "node-hours"
    assert ask("epoch_cost").value == pytest.approx(ask("epoch_cost", price=1.0).value)
    assert ask("epoch_cost", price=1.0).question.unit == "price"
    assert ask().question.unit == "s"


def test_time_to_an_accuracy_is_steps_times_step_time():
    steps = to_accuracy(640)
    found = ask("target_time", steps=steps)
    per_step = ask().value * np.arange(1, 65) * 64 / EXAMPLES
    assert found.value == pytest.approx(per_step * steps.evaluate(64 * np.arange(1, 65)))
    cost = ask("target_cost", steps=steps)
    assert cost.value == pytest.approx(found.value * np.arange(1, 65) / 3600)


def test_steps_known_up_to_a_factor_give_ratios_and_the_same_best():
    exact, relative = (
        ask("target_time", steps=steps) for steps in (to_accuracy(640), to_accuracy(640, None))
    )
    assert relative.question.unit == "1"
    assert relative.value == pytest.approx(exact.value / exact.value[0])
    assert (relative.best, relative.near) == (exact.best, exact.near)


def test_at_a_fixed_global_batch_the_best_is_the_same_whatever_is_reached():
    epoch = ask(global_batch=512)
    target = ask("target_time", global_batch=512, steps=to_accuracy(9))
    assert epoch.best == target.best
    assert epoch.near == target.near


def test_no_node_is_left_without_an_example():
    assert ask(global_batch=5).nodes.tolist() == [1, 2, 3, 4, 5]


def test_one_node_is_always_compared_and_each_number_once():
    assert ask(nodes=[8, 2, 8]).nodes.tolist() == [1, 2, 8]


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"objective": "profit", "batch": 1}, "objective: must be one of"),
        ({"objective": "epoch_time", "examples": 9}, "either"),
        ({"objective": "epoch_time", "batch": 1, "global_batch": 1, "examples": 9}, "either"),
        ({"objective": "epoch_cost", "batch": 1}, "examples"),
        ({"objective": "target_time", "batch": 1}, "steps"),
        ({"objective": "efficiency", "batch": 0}, "batch: must be"),
        ({"objective": "efficiency", "global_batch": np.inf}, "global_batch: must be"),
        ({"objective": "epoch_cost", "batch": 1, "examples": 9, "price": np.nan}, "price: must be"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(question, message):
    with pytest.raises(ValueError, match=message):
        Question(**question)


def test_a_fit_that_cannot_answer_is_refused():
    question = Question("efficiency", batch=64)
    fitted = known(RingAllReduce(), VALUES)
    with pytest.raises(ValueError, match="no model 'other'"):
        find_optimum(fitted, question, [2], payload=1, model="other")
    with pytest.raises(ValueError, match="no link 'other'"):
        find_optimum(fitted, question, [2], payload=1, link="other")
    with pytest.raises(ValueError, match="1 or more"):
        find_optimum(fitted, question, [0], payload=1)
    none = fit(RingAllReduce(), Points.of([1, 2], 64, 1.0, [1.0, 1.0]), draws=0)
    with pytest.raises(ValueError, match="draws"):
        find_optimum(none, question, [2], payload=1)


def test_a_law_of_one_batch_is_not_asked_about_another():
    fitted = fit(Amdahl(), Points.of([1, 2, 4], 64, PAYLOAD, [1.0, 1.2, 1.4]))
    held = Question("epoch_time", batch=64, examples=EXAMPLES)
    assert find_optimum(fitted, held, [2, 4, 8], payload=PAYLOAD).best == 8
    shared = Question("epoch_time", global_batch=64, examples=EXAMPLES)
    with pytest.raises(ValueError, match="the points say nothing about one node"):
        find_optimum(fitted, shared, [2, 4], payload=PAYLOAD)


# --- no best number, or one beyond the numbers compared ---


SLOW = VALUES | {"latency_s": 1.0}  # Messages take longer than computing.
ONE = "faster than one node of the same strategy."
SHORTER = "an epoch gets ever shorter with more nodes, at least up to"


@pytest.mark.parametrize(
    ("asked", "best", "anywhere", "text"),
    [
        ({}, 64, None, f"The formula has no interior optimum: {SHORTER} 4,096 nodes."),
        ({"nodes": [1, 8192]}, 8192, None, f"{SHORTER} 8,192 nodes."),
        ({"law": NoExchange(), "global_batch": 32}, 32, None, "down to one example on each"),
        (
            {"law": NoExchange(), "global_batch": 6000, "nodes": [1, 6000]},
            6000,
            None,
            "down to one",
        ),
        ({"values": SLOW}, 1, 1, f"No larger number of nodes is {ONE}"),
        # Two nodes lose by sending as much as they gain; a hundred nodes do not.
        (
            {"values": VALUES | {"seconds_per_byte": 2e-7}, "nodes": range(1, 9)},
            *(1, None, f"None of the larger numbers compared is {ONE}"),
        ),
        ({"objective": "epoch_cost"}, 1, 1, "No larger number of nodes is cheaper"),
        (
            {"objective": "efficiency", "values": SLOW},
            *(1, 1, f"None of the larger numbers compared is {ONE}"),
        ),
        (
            {"objective": "efficiency", "law": NoExchange()},
            *(64, None, "efficiency stays at 0.5 or more"),
        ),
    ],
)
def test_an_answer_without_a_best_number_inside_says_why(asked, best, anywhere, text):
    found = ask(**asked)
    assert (found.best, found.anywhere, found.interior) == (best, anywhere, False)
    if best == 1:
        assert found.break_even is None and found.beats_one.max() == 0
    answer = in_words(found)
    assert text in answer
    assert ("no interior optimum" in answer) == (anywhere is None)


def test_a_best_number_beyond_those_compared_is_told():
    near, wide = ask(global_batch=4096, nodes=range(1, 9)), ask(global_batch=4096)
    assert near.best == 8
    assert not near.interior
    assert wide.interior
    assert near.anywhere == pytest.approx(wide.best, rel=0.05)
    assert f"the optimum lies further out, at about {near.anywhere} nodes." in in_words(near)


def test_the_last_number_compared_may_be_the_best_of_all():
    best = ask(global_batch=1024).best
    found = ask(global_batch=1024, nodes=range(1, best + 1))
    assert (found.best, found.interior) == (best, True)


def test_numbers_between_those_compared_are_looked_at_too():
    """With 1, 2 and 64 nodes, the best is between 2 and 64, so that 64 is no interior optimum."""
    asked = {"global_batch": 1024, "values": VALUES | {"latency_s": 2e-3}}
    best = ask(**asked).best
    assert 2 < best < 64
    few = ask(nodes=[1, 2, 64], **asked)
    assert not few.interior
    assert few.anywhere == pytest.approx(best, abs=1)
    answer = in_words(few)
    assert answer.startswith("Of 1, 2, 64 nodes up to 64 that share 1,024 examples per step,")
    assert "By the formula the optimum lies further out" in answer


def test_what_only_rounding_tells_apart_is_equal():
    """Without communication an epoch costs the same on any number of nodes; the fewest are best."""
    found = ask(
        "epoch_cost", values={"compute_per_example_s": 0.87 / 64}, law=NoExchange(), examples=1
    )
    assert found.best == 1
    assert found.probability[0] == 1
    assert found.break_even is None
    assert found.beats_one.max() == 0


def test_draws_in_which_a_step_takes_no_time_are_left_out_and_most_of_them_refused():
    nothing = dict.fromkeys(VALUES, 0.0)
    question = Question("efficiency", batch=64)

    def found(draws):
        fitted = known(RingAllReduce(), VALUES, draws)
        return find_optimum(fitted, question, [1, 2, 4], payload=PAYLOAD)

    some = found([VALUES, VALUES, nothing])
    assert np.isfinite([some.low, some.high]).all()
    assert some.probability.sum() == pytest.approx(1)
    with pytest.raises(ValueError, match="say too little about one node"):
        found([VALUES, nothing, nothing])


def test_servers_that_never_idle_set_a_limit():
    values = VALUES | {"service_s": 0.0}
    found = ask(law=ParameterServer(), values=values, nodes=range(1, 17))
    assert found.near[-1] == 16
    assert found.near[0] < 16


def test_efficiency_asks_for_the_most_nodes_that_are_worth_their_half():
    found = ask("efficiency", global_batch=512)
    at = found.at(found.best)
    assert found.value[at] >= 0.5 > found.value[at + 1]
    assert found.interior
    assert found.value[[found.at(n) for n in found.near if n != found.best]] == pytest.approx(
        0.5, rel=0.05
    )


def test_the_near_set_holds_all_within_five_percent_and_no_other():
    found = ask(global_batch=2048)
    inside = found.value <= 1.05 * found.value.min()
    assert found.near == tuple(found.nodes[inside])
    assert found.best in found.near


# --- how sure ---


def test_probabilities_are_shares_of_the_draws():
    draws = [VALUES] * 3 + [VALUES | {"latency_s": 1.0}]
    fitted = known(RingAllReduce(), VALUES, draws)
    question = Question("epoch_time", batch=64, examples=EXAMPLES)
    found = find_optimum(fitted, question, range(1, 9), payload=PAYLOAD)
    assert found.probability.tolist() == [0.25, *[0] * 6, 0.75]
    assert found.beats_one.tolist() == [0, *[0.75] * 7]


def test_an_uncertain_critical_batch_makes_the_best_number_uncertain():
    draws = np.array([[1.0, 64.0], [1.0, 6400.0]])
    sure = StepsToAccuracy(1.0, 640.0, draws[:1], 0.9)
    unsure = StepsToAccuracy(1.0, 640.0, draws, 0.9)
    law = known(Star(), VALUES, [VALUES] * 10)
    found = [
        find_optimum(law, Question("target_time", batch=64, steps=steps), range(1, 65), payload=1e5)
        for steps in (sure, unsure)
    ]
    assert np.count_nonzero(found[0].probability) == 1
    assert np.count_nonzero(found[1].probability) == 2
    assert (found[1].high - found[1].low > found[0].high - found[0].low).all()


def test_the_truth_is_found_from_noisy_points_and_the_interval_holds_it():
    rng = np.random.default_rng(3)
    nodes, batch = np.meshgrid([1.0, 2, 3, 4], [32.0, 64, 128, 256, 512])
    nodes, batch = nodes.ravel(), batch.ravel()
    law = RingAllReduce()
    values = dict.fromkeys((p.name for p in law.parameters), 0.0) | VALUES
    clean = law.evaluate(values, nodes, batch, PAYLOAD)
    noisy = clean * rng.lognormal(0, 0.02, clean.shape)
    fitted = fit(
        law,
        Points.of(
            nodes,
            batch,
            PAYLOAD,
            noisy,
            compute_s=VALUES["compute_fixed_s"] + VALUES["compute_per_example_s"] * batch,
            communicate_s=law.communicate_s(values, Points.of(nodes, batch, PAYLOAD, 1.0).at),
        ),
    )
    question = Question("epoch_time", global_batch=512, examples=EXAMPLES)
    found = find_optimum(fitted, question, range(1, 17), payload=PAYLOAD)
    truth = find_optimum(known(law, VALUES), question, range(1, 17), payload=PAYLOAD)
    assert truth.best in found.near
    assert found.probability[[found.at(n) for n in truth.near]].sum() > 0.8
    assert found.probability.sum() == pytest.approx(1)
    assert ((found.low <= found.value) & (found.value <= found.high)).all()


# --- what is measured, words and rows ---


def test_what_lies_outside_the_measured_points_is_a_prediction():
    found = ask(nodes=[2, 4, 5])
    assert found.measured.tolist() == [True, True, True, False]
    assert found.predicted
    assert "This is a prediction: this number of nodes" in in_words(found)
    assert not ask(nodes=[2, 4]).predicted
    assert ask(nodes=[2, 4], batch=16).predicted
    assert ask(global_batch=64, nodes=[2, 4]).measured.tolist() == [True, True, False]


def test_the_answer_in_words_has_its_probability_and_its_set():
    found = ask(global_batch=1024)
    text = in_words(found)
    best = found.best
    assert text.startswith(
        "Of up to 64 nodes that share 1,024 examples per step, an epoch is shortest on "
        f"{best} nodes (probability 0.95): 2.94 s (90 % interval 2.94 s – 2.94 s). On "
    )
    assert "This is an extrapolation: the measurements end at 4 nodes, less than half" in text
    assert f"On {found.near[0]}–{found.near[-1]} nodes it is within 5 % of the best." in text
    faster = "At least 2 nodes are needed to be faster than one node of the same strategy"
    assert f"{faster} (probability > 0.99)." in text


@pytest.mark.parametrize("objective", ["efficiency", "deadline"])
def test_who_asks_for_something_else_is_not_told_what_is_faster_than_one_node(objective):
    text = in_words(ask(objective=objective, deadline_s=1e6))
    assert "needed to be faster" not in text


def test_the_answer_tells_which_number_is_more_probable_than_the_fit_s():
    draws = [VALUES] + [VALUES | {"latency_s": 1.0}] * 3
    fitted = known(RingAllReduce(), VALUES, draws)
    question = Question("epoch_time", batch=64, examples=EXAMPLES)
    text = in_words(find_optimum(fitted, question, range(1, 9), payload=PAYLOAD))
    assert "8 nodes by the formula: 4.84 s (90 % interval 4.84 s – " in text
    assert "). The points leave it open: probability 0.25 for 8" in text
    assert "for 8 nodes, 0.75 for one node." in text


def test_the_probability_of_an_efficiency_is_that_of_reaching_it():
    draws = [VALUES | {"latency_s": latency} for latency in (1e-4, 1e-5, 1e-6, 1.0)]
    fitted = known(Star(), VALUES | {"latency_s": 1e-3}, draws)
    question = Question("efficiency", batch=64)
    found = find_optimum(fitted, question, range(1, 65), payload=1e4)
    assert 1 < found.best < 64
    assert f"up to {found.best} nodes (probability 0.75)" in in_words(found)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective_has_words_and_rows(objective):
    more = {"deadline": {"deadline_s": 1e4}, "energy": {"watts": 90.0}}.get(objective, {})
    found = ask(objective, steps=to_accuracy(100), nodes=[1, 2, 64], **more)
    rows = [*listed_rows(found, {"curve": "mine"}, [1, 2, 64])]
    assert [row["nodes"] for row in rows] == [1, 2, 64]
    assert [row["kind"] for row in rows] == ["fitted", "fitted", "predicted"]
    assert all(next(iter(row)) == "curve" for row in rows)
    ((answer, kind),) = ((row["answer"], row["kind"]) for row in rows if row["best"])
    # beyond the measured range the interval is that of the formula alone
    assert answer == in_words(found, valued=kind == "fitted")
    assert rows[1]["global_batch"] == 128


def test_ranges_join_neighbours_among_those_compared():
    nodes = np.array([1, 2, 3, 8, 16])
    assert ranges(nodes, np.array([True, False, True, True, False])) == "1, 3–8"
    assert ranges(nodes, np.zeros(5, bool)) == ""
    assert ranges(nodes, np.ones(5, bool)) == "1–16"


def test_a_deadline_is_met_by_the_cheapest_that_is_in_time():
    one = ask(nodes=[2, 4, 8]).value
    found = ask("deadline", nodes=[2, 4, 8], deadline_s=float(one[2]) * 1.01)
    assert found.best == 4
    assert not found.late
    assert in_words(found).startswith(
        "Of 1, 2, 4, 8 nodes up to 8 with 64 examples each, an epoch is done within 8.24 s at the "
        "least cost on 4 nodes (probability > 0.99): 8.16 s ("
    )


def test_near_the_best_of_a_deadline_is_what_costs_about_as_much():
    found = ask("deadline", law=NoExchange(), nodes=[2, 4], deadline_s=1e6)
    assert (found.best, found.near) == (1, (1, 2, 4))
    assert "On 1–4 nodes the cost is within 5 % of the best." in in_words(found)


def test_a_deadline_that_no_number_meets_is_said_to_be_missed():
    four = ask(nodes=[2, 4]).value[-1]
    late = ask("deadline", nodes=[2, 4], deadline_s=float(four) / 2)
    assert (late.late, late.best, late.anywhere) == (True, 4, 11)
    assert late.probability.tolist() == [0, 0, 0]
    text = in_words(late)
    assert text == (
        "Of 1, 2, 4 nodes up to 4 with 64 examples each, no number meets the deadline of 4.08 s "
        "for an epoch (probability > 0.99). The soonest is 4 nodes: 8.16 s (90 % interval 8.16 s – "
        "8.16 s). By the formula about 11 nodes would meet it."
    )
    never = in_words(ask("deadline", nodes=[2, 64], deadline_s=1e-3))
    assert "epoch (probability 0.95). The soonest is 64 nodes: " in never
    assert "By the formula no larger number does, at least up to 4,096 nodes." in never
    shared = in_words(ask("deadline", global_batch=64, deadline_s=1e-3))
    assert "By the formula no larger number does, down to one example on each." in shared
    counted = {"steps": StepsToAccuracy(1e3, 1e5, ONCE * [1e3, 1e5], measured=True)}
    target = in_words(ask("deadline", nodes=[2, 4], deadline_s=1.0, **counted))
    assert "no number meets the deadline of 1.00 s for the target accuracy (prob" in target


def test_a_deadline_that_may_be_missed_says_so():
    draws = [VALUES] * 3 + [VALUES | {"compute_per_example_s": 1.0}] * 2
    fitted = known(RingAllReduce(), VALUES, draws)
    question = Question("deadline", batch=64, examples=EXAMPLES, deadline_s=9.0)
    found = find_optimum(fitted, question, [1, 2, 4], payload=PAYLOAD)
    assert (found.best, found.late) == (4, False)
    assert found.probability.tolist() == pytest.approx([0, 0, 0.6])
    assert "With probability 0.40 no number meets the deadline." in in_words(found)


def test_an_open_range_says_that_it_ends_with_the_largest_number_compared():
    found = ask(nodes=range(2, 65))
    assert found.range == (4, 64)
    words = "The 90 % interval of the best number is 4 to 64, the largest number compared."
    assert words in in_words(found)
    draws = [VALUES | {"latency_s": latency} for latency in (1e-3, 5e-3, 2e-2)]
    asked = Question("epoch_time", global_batch=1024, examples=EXAMPLES)
    fitted = known(RingAllReduce(), draws[1], draws, measured=((1, 64), (16, 512)))
    inside = in_words(find_optimum(fitted, asked, range(1, 65), payload=PAYLOAD))
    assert re.search(r"interval of the best number is \d+ to \d+\.", inside)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"objective": "epoch_time"}, ": 1.46 s (90 % interval 1.46 s – 1.46 s)."),
        (
            {"objective": "epoch_cost", "nodes": [2]},
            ": 0.004375 node-hours (90 % interval 0.004375",
        ),
        ({"objective": "efficiency", "nodes": [2]}, ": 0.60 (90 % interval 0.60 – 0.60)."),
        (
            {"objective": "energy", "watts": 90.0},
            "an epoch is done with the least energy on one no",
        ),
        (
            {"objective": "energy", "watts": 90.0, "steps": to_accuracy(640)},
            "a training accuracy of 0.9 is reached with the least energy on one node (",
        ),
        (
            {"objective": "target_time", "steps": to_accuracy(640, None)},
            "× the time of one node (90 % interval ",
        ),
    ],
)
def test_the_answer_has_its_value_with_its_interval_and_unit(asked, said):
    assert said in in_words(ask(**asked))


def test_values_are_told_in_the_unit_of_the_reader():
    found = ask("epoch_cost", price=2.0, nodes=[2, 4])
    assert " on one node (probability > 0.99): 0.00875 (" in in_words(found, "currency")
    assert " s per example (90 % interval " in in_words(ask(nodes=[2]), "s per example")


def test_starting_up_takes_time_and_costs():
    plain, slow = ask(nodes=[2, 4]), ask(nodes=[2, 4], startup_s=1000.0)
    assert slow.value == pytest.approx(plain.value + 1000)
    cheap = ask("epoch_cost", nodes=[2, 4], startup_s=1e9)
    assert cheap.best == 1


def test_the_least_efficiency_that_is_enough_can_be_given():
    much, little = (ask("efficiency", least_efficiency=e, nodes=range(2, 65)) for e in (0.8, 0.2))
    assert much.best < little.best
    assert "efficiency is 0.8 or more on up to" in in_words(much)


def test_no_number_beyond_what_was_measured_is_almost_certain():
    found = ask(nodes=range(2, 65))
    outside = ~found.measured
    assert found.probability[outside].max() <= 0.95
    assert found.beats_one[outside].max() <= 0.95
    assert found.probability.sum() == pytest.approx(1)
    first, last = found.range
    assert first <= found.best <= last

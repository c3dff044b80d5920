"""Steps needed at each global batch: from runs of whole epochs or from the noise scale."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.predict.steps_to_accuracy import (
    NotEnoughRunsError,
    StepsToAccuracy,
    by_noise,
    find_steps,
    fit_steps,
)

MINIMUM, CRITICAL = 400.0, 96.0
EXAMPLES = 6_400


def accuracy_after(steps, global_batch):
    """Return an accuracy that is 0.9 after S_min·(1 + B_c/G) steps at any global batch G."""
    return 0.9 * (steps / (MINIMUM * (1 + CRITICAL / global_batch))) ** 0.5


def run(name, batch, nodes=1, epochs=12, repeat=0):
    steps = EXAMPLES // (batch * nodes)
    number = np.arange(epochs)
    middle = (number + 0.5) * steps
    return pd.DataFrame(
        {
            "cell_id": name,
            "batch_per_worker": batch,
            "nodes": nodes,
            "epoch": number + 1,
            "steps": steps,
            "accuracy": accuracy_after(middle, batch * nodes).clip(max=1.0),
            "model": "mlp",
            "dataset": "garments",
            "data_origin": "official",
        }
    )


# --- from runs ---


def test_runs_at_several_global_batches_give_the_law_back():
    epochs = pd.concat([run("a", 32), run("b", 32, nodes=2), run("c", 128)])
    found = fit_steps(epochs, target=0.8)
    share = (0.8 / 0.9) ** 2
    assert found.target == 0.8
    batches = np.array([32, 64, 128])
    exact = share * MINIMUM * (1 + CRITICAL / batches)
    assert found.evaluate(batches) == pytest.approx(exact, rel=0.03)
    assert found.critical_batch == pytest.approx(CRITICAL, rel=0.15)
    low, high = found.critical_batch_interval
    assert low < CRITICAL < high


def test_without_a_target_it_is_the_highest_that_all_runs_reach():
    few, many = run("a", 32, epochs=12), run("b", 128, epochs=10)
    found = fit_steps(pd.concat([few, many]))
    assert found.target == min(few["accuracy"].max(), many["accuracy"].max())


@pytest.mark.parametrize(
    ("runs", "target"),
    [
        ([], 0.8),
        ([], None),
        ([("a", 64), ("b", 32, 2)], 0.8),
        ([("a", 32), ("b", 128)], 1.01),
        ([("a", 32), ("b", 128, 1, 1)], 0.8),
        ([("a", 32), ("b", 128)], 0.01),
    ],
)
def test_fewer_than_two_batches_that_reach_the_target_are_too_few(runs, target):
    empty = run("none", 32).iloc[:0]
    epochs = pd.concat([empty, *(run(*one) for one in runs)])
    with pytest.raises(NotEnoughRunsError, match="two global batches or more"):
        fit_steps(epochs, target)


def test_a_run_that_began_above_the_target_does_not_count():
    quick = run("quick", 64).assign(accuracy=0.85)
    epochs = pd.concat([run("a", 32), run("b", 128), quick])
    expected = fit_steps(pd.concat([run("a", 32), run("b", 128)]), 0.8)
    assert fit_steps(epochs, 0.8).minimum_steps == pytest.approx(expected.minimum_steps)


def test_only_synchronous_runs_of_whole_epochs_on_the_same_data_are_compared():
    cells = pd.DataFrame(
        {
            "cell_id": ["a", "b", "c", "d", "e", "f"],
            "exchange": ["none", "ring", "server", "averaging", "star", "none"],
            "status": "ok",
            "whole_epochs": [True, True, True, True, False, True],
        }
    )
    batches = zip("abcdef", (32, 128, 8, 16, 64, 512), strict=True)
    runs = [run(name, batch) for name, batch in batches]
    runs[-1] = runs[-1].assign(data_origin="generated")
    none = pd.DataFrame(columns=["model", "dataset", "data_origin"])
    other, mine = find_steps(pd.concat(runs), cells, none)
    assert mine.key == ("mlp", "garments", "official") and other.law is None
    expected = fit_steps(pd.concat(runs[:2]))
    assert mine.law.minimum_steps == pytest.approx(expected.minimum_steps)
    assert mine.row()["target"] == expected.target and "two global" in other.row()["missing"]


# --- the law ---


@given(st.floats(1, 1e5), st.floats(1, 1e7))
def test_at_the_critical_batch_both_steps_and_examples_are_twice_the_least(steps, examples):
    law = StepsToAccuracy(steps, examples, np.array([[steps, examples]]))
    needed = float(law.evaluate(law.critical_batch))
    assert needed == pytest.approx(2 * steps)
    assert needed * law.critical_batch == pytest.approx(2 * examples)


def test_no_batch_large_enough_is_an_infinite_critical_batch():
    law = StepsToAccuracy(0.0, 100.0, np.array([[0.0, 100.0], [1.0, 100.0]]))
    assert law.critical_batch == np.inf
    assert law.critical_batch_interval == (100.0, np.inf)


# --- from the noise scale ---


def noise_law(noise, signal):
    """Return the law by estimates of shape (points, groups)."""
    noise, signal = np.array(noise, float), np.array(signal, float)
    step = np.indices(noise.shape)[0]
    columns = {"step": step.ravel(), "noise": noise.ravel(), "signal": signal.ravel()}
    return by_noise(pd.DataFrame(columns))


def test_the_noise_scale_is_the_critical_batch():
    law = noise_law(np.full((3, 4), 600.0), np.full((3, 4), 2.0))
    assert law.critical_batch == pytest.approx(300)
    assert law.critical_batch_interval == pytest.approx((300, 300))
    assert law.target is None


@pytest.mark.parametrize(
    ("noise", "signal", "critical"),
    [([[100.0, 100.0]], [[-1.0, -2.0]], np.inf), ([[0.0]], [[1.0]], 0.0)],
)
def test_no_signal_is_an_infinite_batch_and_no_noise_needs_none(noise, signal, critical):
    law = noise_law(noise, signal)
    assert law.critical_batch == critical
    assert np.isfinite(law.evaluate([1, 64])).all()

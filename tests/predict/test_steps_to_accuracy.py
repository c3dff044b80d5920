"""Steps needed at each global batch: from runs of whole epochs or from the noise scale."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.predict.steps_to_accuracy import (
    KEY,
    StepsToAccuracy,
    by_noise,
    find_steps,
    fit_counted,
    runs_to,
)

MINIMUM, CRITICAL = 400.0, 96.0
EXAMPLES = 6_400


def run(name, batch, nodes=1):
    """Return epochs whose accuracy is 0.9 after S_min·(1 + B_c/G) steps at a global batch G."""
    steps, number = EXAMPLES // (batch * nodes), np.arange(12)
    needed = MINIMUM * (1 + CRITICAL / (batch * nodes))
    accuracy = 0.9 * ((number + 0.5) * steps / needed) ** 0.5
    about = {"cell_id": name, "batch_per_worker": batch, "nodes": nodes, "steps": steps}
    about |= {"model": "mlp", "dataset": "garments", "data_origin": "official"}
    return pd.DataFrame({"epoch": number + 1, "accuracy": accuracy.clip(max=1.0)}).assign(**about)


# --- from runs ---


def test_runs_at_several_global_batches_give_the_law_back():
    epochs = pd.concat([run("a", 32), run("b", 32, nodes=2), run("c", 128)])
    batch, examples = runs_to(epochs, 0.8)
    found = fit_counted(batch, examples)
    exact = (0.8 / 0.9) ** 2 * MINIMUM * (batch + CRITICAL)
    assert batch.tolist() == [32, 64, 128]
    assert examples == pytest.approx(exact, rel=0.03)
    assert found.examples(batch)[0] == pytest.approx(exact, rel=0.03)
    assert found.critical_batch == pytest.approx(CRITICAL, rel=0.15)
    low, high = found.critical_batch_interval
    assert low < CRITICAL < high


@pytest.mark.parametrize(
    ("accuracy", "target"), [(None, 1.01), (None, 0.01), (0.85, 0.8)], ids=["never", "early", "all"]
)
def test_a_run_that_was_not_seen_to_reach_the_target_does_not_count(accuracy, target):
    one = run("a", 32)
    assert runs_to(one.assign(accuracy=accuracy or one["accuracy"]), target).shape == (2, 0)


def test_only_synchronous_runs_of_whole_epochs_on_the_same_data_are_compared():
    exchanges = ["none", "ring", "server", "averaging", "star", "none"]
    cells = pd.DataFrame({"cell_id": [*"abcdef"], "exchange": exchanges, "status": "ok"})
    cells["whole_epochs"] = cells["exchange"] != "star"
    batches = zip("abcdef", (32, 128, 8, 16, 64, 512), strict=True)
    runs = [run(name, batch) for name, batch in batches]
    runs[-1] = runs[-1].assign(data_origin="generated")
    none = pd.DataFrame(columns=["model", "dataset", "data_origin"])
    other, mine = find_steps(pd.concat(runs), cells, none)
    assert [mine[name] for name in KEY] == ["mlp", "garments", "official"]
    assert other["law"] is None and "two global batches" in other["missing"]
    # the highest accuracy that both reach
    assert mine["target"] == min(one["accuracy"].max() for one in runs[:2])
    expected = fit_counted(*runs_to(pd.concat(runs[:2]), mine["target"]))
    assert mine["minimum_steps"] == pytest.approx(expected.coefficients[0, 0])


# --- the law ---


def law(*rows):
    return StepsToAccuracy(np.array(rows), np.zeros(len(rows)))


@given(st.floats(1, 1e5), st.floats(1, 1e7))
def test_at_the_critical_batch_both_steps_and_examples_are_twice_the_least(steps, examples):
    found = law([steps, examples], [steps, examples])
    needed = float(found.examples(found.critical_batch)[0, 0])
    assert needed == pytest.approx(2 * examples)
    assert needed / found.critical_batch == pytest.approx(2 * steps)


def test_no_batch_large_enough_is_an_infinite_critical_batch():
    found = law([0.0, 100.0], [0.0, 100.0], [1.0, 100.0])
    assert found.critical_batch == np.inf
    assert found.critical_batch_interval == (100.0, np.inf)


# --- from the noise scale ---


def noise_law(noise, signal):
    """Return the law by estimates of shape (points, groups)."""
    noise, signal = np.array(noise, float), np.array(signal, float)
    step = np.indices(noise.shape)[0]
    columns = {"step": step.ravel(), "noise": noise.ravel(), "signal": signal.ravel()}
    return by_noise(pd.DataFrame(columns))


def test_the_noise_scale_is_the_critical_batch():
    found = noise_law(np.full((3, 4), 600.0), np.full((3, 4), 2.0))
    assert found.critical_batch == pytest.approx(300)
    assert found.critical_batch_interval == pytest.approx((300, 300))


@pytest.mark.parametrize(
    ("noise", "signal", "critical"),
    [([[100.0, 100.0]], [[-1.0, -2.0]], np.inf), ([[0.0]], [[1.0]], 0.0)],
)
def test_no_signal_is_an_infinite_batch_and_no_noise_needs_none(noise, signal, critical):
    found = noise_law(noise, signal)
    assert found.critical_batch == critical
    assert np.isfinite(found.examples([1, 64])).all()

"""Steps, time and batch of a training in `trainer_state.json`."""

import json
import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mistakes import user_error
from nodewise.results.importers import read_rows

STATE = {"global_step": 1000, "max_steps": 1000, "num_train_epochs": 3, "train_batch_size": 32}
END = {"train_runtime": 250.0, "train_samples_per_second": 512.0, "train_steps_per_second": 4.0}


def read(folder, end=(), logged=(), **state):
    path = folder / "trainer_state.json"
    history = [{"loss": 0.6, "grad_norm": math.nan}, *logged, END | dict(end), {"eval_loss": 0.4}]
    path.write_text(json.dumps(STATE | {"log_history": history} | state))
    return read_rows(path)


@pytest.mark.parametrize(
    ("end", "state", "steps_per_s", "batch"),
    [
        # A slow training has more digits than its rates.
        ((83210.5, 12.306, 0.012), {}, 1000 / 83210.5, 1024),
        ((2e6, 0.128, 0.0), {}, 0.0005, 256),
        ((2e6, 0.128, 0.0), {"num_train_epochs": 2**63 - 1}, 0.0005, 256),  # of a stream
        # One that stopped early is measured by the steps that it made.
        ((250.0, 512.0, 4.0), {"global_step": 500}, 2.0, 128),
        # Two epochs of three steps: 192 examples may be 64 a step, or 80 and fewer in the last.
        ((250.0, 1.536, 4.0), {"max_steps": 6, "num_train_epochs": 2}, 4.0, None),
        ((250.0, 4096.0, 4.0), {"train_batch_size": None}, 4.0, None),
        ((250.0, 512.0, 4.0), {"max_steps": None}, 4.0, None),
        ((250.0, 512.0, None), {}, 4.0, None),
    ],
)
def test_a_rate_is_exact_and_a_batch_that_is_not_sure_is_left_out(
    tmp_path, end, state, steps_per_s, batch
):
    each = {"train_batch_size": 16} if batch is None else {}
    rows = read(tmp_path, dict(zip(END, end, strict=True)), **(each | state))
    assert rows["steps_per_s"].tolist() == [steps_per_s]
    assert rows.get("global_batch", pd.Series([None])).tolist() == [batch]


def test_keys_may_have_any_order(tmp_path):
    rows = read(tmp_path)
    path = tmp_path / "other.json"
    path.write_text(json.dumps({"log_history": [END], **STATE}, indent=2))
    assert rows.to_dict("list") == {"steps_per_s": [4.0], "global_batch": [128.0]}
    assert read_rows(path).equals(rows)


def test_evaluation_within_the_time_has_a_note(tmp_path):
    assert not read(tmp_path, logged=[{"eval_runtime": 1.0}]).attrs["notes"]
    (note,) = read(tmp_path, logged=[{"eval_runtime": 30.0}]).attrs["notes"]
    assert "evaluations" in note


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ({"train_samples_per_second": "NaN"}, "train_samples_per_second: "),
        ({"train_samples_per_second": -4.0}, "train_samples_per_second: "),
        ({"train_runtime": 0.0}, "train_runtime: "),
        ({"train_runtime": None}, "has no train_runtime"),
    ],
)
def test_impossible_values_are_refused(tmp_path, end, said):
    assert said in user_error(read, tmp_path, end)


@given(st.data())
def test_a_batch_is_right_or_left_out(tmp_path_factory, data):
    """As the Trainer counts examples and steps, in the versions that differ."""
    each, devices, accumulated = (data.draw(st.integers(1, most)) for most in (64, 16, 8))
    batch = each * devices * accumulated
    examples = data.draw(st.integers(batch, 200 * batch))
    batches = examples / (each * devices)
    batches = math.floor(batches) if data.draw(st.booleans(), "drop last") else math.ceil(batches)
    per_epoch = batches / accumulated
    per_epoch = math.ceil(per_epoch) if data.draw(st.booleans()) else max(int(per_epoch), 1)
    if data.draw(st.booleans(), "max_steps"):
        steps = data.draw(st.integers(1, 500))
        seen, epochs = steps * batch, math.ceil(steps / per_epoch)
    else:
        asked = data.draw(st.integers(1, 50)) / 10
        steps, seen, epochs = math.ceil(asked * per_epoch), examples * asked, math.ceil(asked)
    runtime = data.draw(st.floats(0.1, 1e6))
    end = {
        "train_runtime": round(runtime, 4),
        "train_samples_per_second": round(seen / runtime, 3),
        "train_steps_per_second": round(steps / runtime, 3),
    }
    state = {"global_step": steps, "max_steps": steps, "num_train_epochs": epochs}
    rows = read(tmp_path_factory.getbasetemp(), end, train_batch_size=each, **state)
    assert list(rows.get("global_batch", [batch])) == [batch]

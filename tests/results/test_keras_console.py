"""Times of steps in the console output of Keras 2 and 3, in each of its forms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.core.errors import UserError
from nodewise.results.importers import read_rows

BAR = "━" * 20
FIRST = "the only epoch of a training includes its first step, which builds the graph"


def read(tmp_path, text, clock="step_time_s"):
    path = tmp_path / "train.log"
    path.write_text(text, newline="")
    rows = read_rows(path)
    return list(rows[clock]), rows.attrs["notes"]


FORMS = {
    "Keras 3": "{n}/{n} \x1b[32m"
    + BAR
    + "\x1b[0m\x1b[37m\x1b[0m \x1b[1m9s\x1b[0m {ms}ms/step - loss: 1",
    "Keras 3, ASCII": "{n}/{n} " + "=" * 20 + " 9s {ms}ms/step - loss: 1",
    "Keras 3, verbose=2": "{n}/{n} - 9s - {ms}ms/step - loss: 1",
    "Keras 2": "{n}/{n} [==============================] - 9s {ms}ms/step - loss: 1",
    "Keras 2, verbose=2": "{n}/{n} - 9s - loss: 1 - acc: 0 - 9s/epoch - {ms}ms/step",
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_only_epochs_of_training_count(tmp_path, form):
    lines = ["Model: cnn"]
    for number, ms in enumerate((70, 31, 33), 1):
        lines += [f"Epoch {number}/3", form.format(n=469, ms=ms)]
    lines += [form.format(n=469, ms=12), form.format(n=10, ms=13)]  # evaluate and predict
    for tag in ("", "[1,0]<stdout>:"):
        text = "".join(f"{tag}{line}\n" for line in lines)
        assert read(tmp_path, text) == ([0.031, 0.033], [])


def test_a_bar_counts_once(tmp_path):
    states = (" 1/40", "9s 65ms"), ("40/40", "0s 24ms"), ("40/40", "1s 25ms")
    updates = ("\b" * 9 + "\r").join(f"{at} {BAR} {times}/step" for at, times in states)
    assert read(tmp_path, f"Epoch 1/2\n{updates}\n")[0] == [0.024]


def test_validation_is_not_part_of_a_step(tmp_path):
    last = f"40/40 {BAR} 3s 82ms/step - loss: 2 - val_loss: 2\n"
    bar = f"Epoch 1/9\n{{at}}/40 {BAR} 0s 24ms/step - loss: 2\r{last}"
    assert read(tmp_path, bar.format(at=37)) == ([0.024], [FIRST])
    # The mean of few steps is worse than a time that includes validation, which a note says.
    assert read(tmp_path, bar.format(at=3)) == (
        [0.082],
        [FIRST, "the time of a step includes validation, as Keras prints it"],
    )


OLD = {  # 60,000 samples in 9 s and 8 s
    "Keras 2.0": "60000/60000 [====] - {s}s - loss: 2",
    "Keras 2.0, verbose=2": "{s}s - loss: 2",
    "Keras 2.2": "60000/60000 [====] - {s}s 133us/step - loss: 2",
    "Keras 2.2, verbose=2": " - {s}s - loss: 2",
    "Keras 2.2, verbose=2 with times": " - {s}s 133us/step - loss: 2",
    "TensorFlow 2.0": "60000/60000 [====] - {s}s 133us/sample - loss: 2",
    "TensorFlow 2.0, verbose=2": "60000/60000 - {s}s",
}


@pytest.mark.parametrize("form", OLD.values(), ids=OLD)
def test_old_versions_count_samples(tmp_path, form):
    lines = ["Train on 60000 samples", "Epoch 1/2", form.format(s=9), "Epoch 2/2", form.format(s=8)]
    for tag in ("", "[1,0]<stdout>:"):
        text = "".join(f"{tag}{line}\n" for line in lines)
        assert read(tmp_path, text, "samples_per_s")[0] == [pytest.approx(60000 / 8, rel=0.01)]


PIECES = ["Epoch 1/2\n", "40/40", " - 1s", " - 25ms/step", BAR, "\r", "\n", "0", "/", "\x1b[1m"]
PIECES += ["val_"]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3)).map("".join))
def test_any_text_gives_positive_times_or_one_line(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "any.log"
    path.write_bytes(text.encode(errors="replace"))
    try:
        assert (read_rows(path, "keras_console").iloc[:, 0] > 0).all()
    except UserError as error:
        assert "\n" not in str(error).removeprefix(str(path))

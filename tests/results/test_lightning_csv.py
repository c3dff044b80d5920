"""One rate of training is taken from what TensorBoard and Lightning logged, or a line asks."""

import struct
from pathlib import Path

import pytest

from mistakes import user_error
from nodewise.results.importers import read_rows
from nodewise.results.importers.scalars import checksum, training_rates

LIGHTNING = ("train/batches_per_sec", "train/device/batches_per_sec")
LIGHTNING += ("train/device/samples_per_sec", "train/samples_per_sec")
VALIDATION = ("validate/device/batches_per_sec", "validate/samples_per_sec")
HUGGING_FACE = ("eval/samples_per_second", "eval/steps_per_second")
HUGGING_FACE += ("train/train_samples_per_second", "train/train_steps_per_second")
KERAS = ("epoch_loss", "epoch_steps_per_second")


@pytest.mark.parametrize(
    ("names", "name"),
    [
        (LIGHTNING + VALIDATION, "train/samples_per_sec"),
        # One device: Lightning writes no global rates.
        (LIGHTNING[1:3] + VALIDATION[:1], "train/device/batches_per_sec"),
        (LIGHTNING[:2], "train/device/batches_per_sec"),
        (HUGGING_FACE, "train/train_samples_per_second"),
        (("batch_steps_per_second", *KERAS), "batch_steps_per_second"),
        (KERAS, "epoch_steps_per_second"),
        (("global_step/sec", "loss"), "global_step/sec"),
        (("Avg iters per sec", "Loss/train"), "Avg iters per sec"),
        (("Avg iters per sec", "Avg samples per sec (train)"), "Avg samples per sec (train)"),
        (("train/it/s", "val/it/s", "iters"), "train/it/s"),
        (("train|samples_per_sec", "val|samples_per_sec"), "train|samples_per_sec"),
        (("8 gpu, no eval - samples_per_second",), "8 gpu, no eval - samples_per_second"),
    ],
)
def test_the_rate_of_training_over_all_devices_is_found(names, name):
    table = training_rates(Path("log"), {other: ["7"] for other in names} | {name: ["5"]})
    clock = "samples_per_s" if "sample" in name else "steps_per_s"
    assert table.to_dict("list") == {clock: [5.0]}
    (note,) = table.attrs["notes"]
    assert name in note and ("validation" in note) == name.startswith("epoch")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("a/samples_per_sec", "b/images_per_sec"), "a/samples_per_sec, b/images_per_sec"),
        (("eval/samples_per_sec", "loss"), "it has eval/samples_per_sec, loss"),
        (("train/device/samples_per_sec",), "it has train/device/samples_per_sec"),
        ((), "it has none"),
    ],
)
def test_an_unclear_rate_is_one_line(names, said):
    assert said in user_error(training_rates, Path("log"), {name: ["5"] for name in names})


def field(number: int, content: bytes) -> bytes:
    """Return a field of a message of Protocol Buffers."""
    return bytes([number << 3 | 2, len(content)]) + content


def events(tmp_path, scalars):
    """Write an event file."""
    path = tmp_path / "events.out.tfevents.1.node"
    with path.open("wb") as file:
        for tag, value in scalars:
            logged = field(1, tag.encode()) + b"\x15" + struct.pack("<f", value)
            content = field(5, field(1, logged))  # a value of the summary of the event
            for part in (struct.pack("<Q", len(content)), content):
                file.write(part + struct.pack("<I", checksum(part)))
    return path


def test_tags_of_an_event_file_are_not_mixed(tmp_path):
    rates = (16.0, 4.0, 256.0, 1024.0, 900.0, 3600.0)
    path = events(tmp_path, zip(LIGHTNING + VALIDATION, rates, strict=True))
    content = path.read_bytes()
    for missing in range(51):  # the last event, of validation, may be incomplete
        path.write_bytes(content[: len(content) - missing])
        rows = read_rows(path)
        assert rows.to_dict("list") == {"samples_per_s": [1024.0]}
        assert rows.attrs["notes"] == ["the rate of training is train/samples_per_sec"]


def test_any_flipped_bit_of_an_event_file_is_named(tmp_path):
    written = Path("tests/results/files/events.out.tfevents.1700000000.node").read_bytes()
    path = tmp_path / "events.out.tfevents.1.node"
    for at in range(len(written)):
        damaged = bytearray(written)
        damaged[at] ^= 1 << at % 8
        path.write_bytes(damaged)
        assert user_error(read_rows, path).startswith(f"{path}: is damaged"), at


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0, -3.0])
def test_an_impossible_rate_is_refused(tmp_path, value):
    path = events(tmp_path, [("samples_per_second", 5.0), ("samples_per_second", value)])
    assert "samples_per_second: must be a number" in user_error(read_rows, path)
    path = tmp_path / "metrics.csv"
    path.write_text(f"epoch,step,train|device|batches_per_sec\n0,9,4.0\n0,19,{value}\n")
    assert "batches_per_sec: must be a number" in user_error(read_rows, path)


def test_a_column_of_lightning_without_values_does_not_count(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text("epoch,step,train/samples_per_sec,train/device/batches_per_sec\n0,9,,4.0\n")
    assert read_rows(path).to_dict("list") == {"steps_per_s": [4.0]}

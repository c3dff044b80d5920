"""Import logged scalars: TensorBoard event files, and CSV of Lightning or Weights & Biases.

Each value of the rate of training is a repeat. Source of the names of rates:
https://lightning.ai/docs/pytorch/stable/api/lightning.pytorch.callbacks.ThroughputMonitor.html

Event files are not read with TensorFlow, because what follows the records never loads it. Format:
https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/util/event.proto and
https://www.tensorflow.org/tutorials/load_data/tfrecord.
"""

import re
import struct
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf.message import DecodeError

from nodewise.core.errors import UserError
from nodewise.core.schema import read_bytes, read_start
from nodewise.results.csv_file import parse_number, read_header, read_table
from nodewise.results.importers import IMPORTERS
from nodewise.results.log_format import DECLARED

_PER_S = r"(s|es)?[\W_]*(per[\W_]*|/\s*)s(ec(ond)?)?\W*(\((train|training)\))?$"
_STEPS = re.compile(rf"(^|[\W_])(step|batch|it|iter|iteration){_PER_S}", re.IGNORECASE)
_EXAMPLES = re.compile(
    rf"(^|[\W_])(example|sample|image|img|sequence|seq|sentence){_PER_S}", re.IGNORECASE
)
_OTHER = re.compile(r"eval|evaluate|evaluation|infer.*|pred.*|sanity|test|testing|val|valid.*")

_START_BYTES = 100
MOST_BYTES = 500_000_000
_LENGTH = struct.Struct("<QI")  # length and its checksum; another checksum follows the data
_CHECKSUM = struct.Struct("<I")
_LARGEST_CHECKED = 100_000  # bytes of an event; larger ones are graphs and pictures
_FORMS = {1: "<f", 2: "<d"}  # of the bytes of a tensor, by its type


class ScalarsCsv:
    """Importer of CSV files with a column of each logged value."""

    def sniff(self, path: Path) -> bool:
        """Return whether it is CSV with the columns that these programs always write."""
        header = read_header(path) if path.suffix == ".csv" else set()
        return {"epoch", "step"} <= header or "Step" in header

    def read(self, path: Path) -> pd.DataFrame:
        """Return one row per value of the rate of training; see `training_rates`."""
        header, lines = read_table(path)
        columns = zip(header, zip(*(values for _, values in lines), strict=False), strict=False)
        logged = {name: [*filter(None, texts)] for name, texts in columns}
        return training_rates(path, {name: texts for name, texts in logged.items() if texts})


class TensorBoard:
    """Importer of event files, as written by Keras, PyTorch and others."""

    def sniff(self, path: Path) -> bool:
        """Return whether the file has a name that TensorBoard reads, or begins as such files do."""
        return ".tfevents" in path.name or b"brain.Event:" in read_start(path, _START_BYTES)

    def read(self, path: Path) -> pd.DataFrame:
        """Return one row per value of the rate of training; see `training_rates`.

        Raises:
            UserError: the file is damaged.
        """
        scalars: dict[str, list[str]] = defaultdict(list)
        content, at = read_bytes(path, MOST_BYTES), 0
        while at < len(content):
            try:
                length, of_length = _LENGTH.unpack_from(content, at)
                start = at + _LENGTH.size
                _check(content[at : at + 8], of_length)
                if start + length + _CHECKSUM.size > len(content):
                    break  # incomplete: the program that writes it was killed or is still running
                data = content[start : start + length]
                if length <= _LARGEST_CHECKED:
                    _check(data, *_CHECKSUM.unpack_from(content, start + length))
                event = event_class().FromString(data)
            except (struct.error, DecodeError) as error:
                raise UserError(
                    f"{path}: is damaged, or not an event file ({error} at byte {at:,})"
                ) from None
            at = start + length + _CHECKSUM.size
            for value in event.summary.value:
                tensor = value.tensor
                form = _FORMS.get(tensor.dtype, "")
                numbers = [*tensor.float_val, *tensor.double_val]
                if value.HasField("simple_value"):
                    numbers = [value.simple_value]
                elif form and len(tensor.tensor_content) == struct.calcsize(form):
                    numbers = [*struct.unpack(form, tensor.tensor_content)]
                if len(numbers) == 1:
                    scalars[value.tag].append(str(numbers[0]))
        return training_rates(path, scalars)


IMPORTERS.add("lightning_csv", ScalarsCsv())
IMPORTERS.add("tensorboard", TensorBoard())


def training_rates(path: Path, logged: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Return one row per value of the rate of training over all devices.

    Examples per second are preferred to steps per second. A note names the rate that was taken.

    Args:
        path: the file, for messages.
        logged: the values by name, such as `train/samples_per_sec`.

    Raises:
        UserError: there is no such rate, or more than one, or a value is not a positive number.
    """
    training = [name for name in sorted(logged) if not any(map(_OTHER.fullmatch, _words(name)))]
    steps = [name for name in training if _STEPS.search(name)]
    rates = {
        "samples_per_s": [
            name for name in training if _EXAMPLES.search(name) and not _of_one_device(name)
        ],
        # All devices make a step together. Lightning's global rate counts the batch of each.
        "steps_per_s": [name for name in steps if _of_one_device(name)] or steps,
    }
    clock = next((clock for clock, names in rates.items() if names), "steps_per_s")
    # Keras' rate of an epoch includes its validation; that of a batch does not.
    names = [name for name in rates[clock] if "epoch" not in _words(name)] or rates[clock]
    if len(names) != 1:
        raise UserError(
            f"{path}: needs one rate of training, such as train/samples_per_sec or "
            f"epoch_steps_per_second; it has {', '.join((names or sorted(logged))[:10]) or 'none'}"
        )
    (name,) = names
    try:
        table = pd.DataFrame({clock: [parse_number(value, 1e-9, 1e12) for value in logged[name]]})
    except ValueError as error:
        raise UserError(f"{path}: {name}: {error}") from None
    validated = ", which includes any validation" if "epoch" in _words(name) else ""
    table.attrs["notes"] = [f"the rate of training is {name}{validated}"]
    return table


def _words(name: str) -> set[str]:
    return set(re.split(r"[\W_]+", name.lower()))


def _of_one_device(name: str) -> bool:
    return bool(_words(name) & {"device", "gpu"})


def _check(content: bytes, expected: int) -> None:
    if checksum(content) != expected:
        raise DecodeError("wrong checksum")


def checksum(content: bytes) -> int:
    """Return the masked CRC-32C of a record, as TensorFlow writes it."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _crc_of_byte(crc: int) -> int:
    for _ in range(8):
        crc = crc >> 1 ^ 0x82F63B78 * (crc & 1)
    return crc


_CRC = [*map(_crc_of_byte, range(256))]


@cache
def event_class() -> Any:  # noqa: ANN401 (a class that is made here)
    """Return the message class `Event`."""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(text_format.Parse(DECLARED["tensorboard"], descriptor_pb2.FileDescriptorProto()))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Event"))

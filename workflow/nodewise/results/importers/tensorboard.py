"""Import TensorBoard event files, as written by Keras, PyTorch and others.

Each value of the scalar that is the rate of training is a repeat.

TensorFlow's own reader is not used, because what follows the records never loads TensorFlow.

Format: https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/util/event.proto and
https://www.tensorflow.org/tutorials/load_data/tfrecord.
"""

import struct
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf.message import DecodeError

from nodewise.core.errors import UserError
from nodewise.core.schema import read_bytes, read_start
from nodewise.results.importers import IMPORTERS
from nodewise.results.importers.lightning_csv import training_rates

_START_BYTES = 100
MOST_BYTES = 500_000_000
_LENGTH = struct.Struct("<QI")  # length and its checksum; another checksum follows the data
_CHECKSUM = struct.Struct("<I")
_LARGEST_CHECKED = 100_000  # bytes of an event; larger ones are graphs and pictures
_FORMS = {1: "<f", 2: "<d"}  # of the bytes of a tensor, by its type


def _scalars(path: Path) -> dict[str, list[str]]:
    """Return the values of all scalars by their tags.

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
    return scalars


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

_EVENT = """
name: "nodewise_event.proto"
message_type { name: "Tensor"
  field { name: "dtype" number: 1 type: TYPE_INT32 }
  field { name: "tensor_content" number: 4 type: TYPE_BYTES }
  field { name: "float_val" number: 5 type: TYPE_FLOAT label: LABEL_REPEATED }
  field { name: "double_val" number: 6 type: TYPE_DOUBLE label: LABEL_REPEATED } }
message_type { name: "Value"
  field { name: "tag" number: 1 type: TYPE_STRING }
  field { name: "simple_value" number: 2 type: TYPE_FLOAT }
  field { name: "tensor" number: 8 type_name: "Tensor" } }
message_type { name: "Summary"
  field { name: "value" number: 1 type_name: "Value" label: LABEL_REPEATED } }
message_type { name: "Event"
  field { name: "summary" number: 5 type_name: "Summary" } }
"""  # only the fields that scalars need


@cache
def event_class() -> Any:  # noqa: ANN401 (a class that is made here)
    """Return the message class `Event`."""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(text_format.Parse(_EVENT, descriptor_pb2.FileDescriptorProto()))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Event"))


class TensorBoard:
    """Importer of event files."""

    def sniff(self, path: Path) -> bool:
        """Return whether the file has a name that TensorBoard reads, or begins as such files do."""
        return ".tfevents" in path.name or b"brain.Event:" in read_start(path, _START_BYTES)

    def read(self, path: Path) -> pd.DataFrame:
        """Return one row per value of the rate of training; see `training_rates`."""
        return training_rates(path, _scalars(path))


IMPORTERS.add("tensorboard", TensorBoard())

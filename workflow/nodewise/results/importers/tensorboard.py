"""Import TensorBoard event files, as written by Keras, PyTorch and others.

Format: https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/util/event.proto and
https://www.tensorflow.org/tutorials/load_data/tfrecord.
"""

import math
import struct
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf.message import DecodeError

from nodewise.core.errors import UserError
from nodewise.core.schema import read_bytes
from nodewise.results.importers import IMPORTERS
from nodewise.results.training_rates import find_training_rate, rate_note

MOST_BYTES = 500_000_000
_LENGTH = struct.Struct("<QI")  # length and its checksum; another checksum follows the data
_CHECKSUM_BYTES = 4
_FLOAT, _DOUBLE = 1, 2


class TensorBoard:
    """Importer of the scalar that is the rate of training. Each value is a repeat."""

    def sniff(self, path: Path) -> bool:
        """Return whether the file has the usual name of event files."""
        return ".tfevents." in path.name

    def read(self, path: Path) -> pd.DataFrame:
        """Return one row per value: examples per second if there are any, else steps per second.

        Raises:
            UserError: the file is damaged, it has no rate of training, or several, or a rate is
                not a positive number.
        """
        values: dict[str, list[float]] = defaultdict(list)
        for tag, value in _scalars(path):
            values[tag].append(value)
        tag, clock = find_training_rate(path, values)
        for value in values[tag]:
            if not 0 < value < math.inf:
                raise UserError(f"{path}: {tag}: {value:g} is not allowed, a rate is more than 0")
        rows = pd.DataFrame({clock: values[tag]})
        rows.attrs["notes"] = [rate_note(tag)]
        return rows


IMPORTERS.add("tensorboard", TensorBoard())


def _scalars(path: Path) -> Iterator[tuple[str, float]]:
    """Yield the tags and the values of all scalars."""
    content, at = read_bytes(path, MOST_BYTES), 0
    while at < len(content):
        try:
            length, _ = _LENGTH.unpack_from(content, at)
            start = at + _LENGTH.size
            if start + length > len(content):
                return  # incomplete: the program that writes it was killed or is still running
            event = _event().FromString(content[start : start + length])
        except (struct.error, DecodeError) as error:
            raise UserError(f"{path}: is not an event file ({error})") from None
        at = start + length + _CHECKSUM_BYTES
        for value in event.summary.value:
            number = _number(value)
            if number is not None:
                yield value.tag, number


def _number(value: Any) -> float | None:  # noqa: ANN401 (a message made below)
    if value.HasField("simple_value"):
        return float(value.simple_value)
    tensor = value.tensor
    form = {_FLOAT: "<f", _DOUBLE: "<d"}.get(tensor.dtype)
    if form and len(tensor.tensor_content) == struct.calcsize(form):
        return float(struct.unpack(form, tensor.tensor_content)[0])
    numbers = [*tensor.float_val, *tensor.double_val]
    return float(numbers[0]) if len(numbers) == 1 else None


_MESSAGES = """
name: "nodewise_event.proto"
package: "nodewise_event"
message_type {
  name: "Tensor"
  field { name: "dtype" number: 1 label: LABEL_OPTIONAL type: TYPE_INT32 }
  field { name: "tensor_content" number: 4 label: LABEL_OPTIONAL type: TYPE_BYTES }
  field { name: "float_val" number: 5 label: LABEL_REPEATED type: TYPE_FLOAT }
  field { name: "double_val" number: 6 label: LABEL_REPEATED type: TYPE_DOUBLE }
}
message_type {
  name: "Value"
  field { name: "tag" number: 1 label: LABEL_OPTIONAL type: TYPE_STRING }
  field { name: "simple_value" number: 2 label: LABEL_OPTIONAL type: TYPE_FLOAT }
  field { name: "tensor" number: 8 label: LABEL_OPTIONAL type_name: "Tensor" }
}
message_type {
  name: "Summary"
  field { name: "value" number: 1 label: LABEL_REPEATED type_name: "Value" }
}
message_type {
  name: "Event"
  field { name: "summary" number: 5 label: LABEL_OPTIONAL type_name: "Summary" }
}
"""


@cache
def _event() -> Any:  # noqa: ANN401 (a class that is made here)
    """Return the message class `Event` with the fields that scalars need."""
    file = text_format.Parse(_MESSAGES, descriptor_pb2.FileDescriptorProto())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("nodewise_event.Event"))

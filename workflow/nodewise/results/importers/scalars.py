"""Import logged scalars: TensorBoard event files, and CSV of Lightning or Weights & Biases.

Each value of the rate of training is a repeat; of several, the first is left out. Names of rates:
https://lightning.ai/docs/pytorch/stable/api/lightning.pytorch.callbacks.ThroughputMonitor.html

Event files are not read with TensorFlow, because what follows the records never loads it. Their
events are declared in log_formats.yaml. https://www.tensorflow.org/tutorials/load_data/tfrecord is
the format of the file.
"""

import io
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import google_crc32c
import numpy as np
import pandas as pd
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import ParseDict
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from nodewise.core.errors import UserError
from nodewise.core.schema import read_bytes, read_start
from nodewise.results.csv_file import parse_number, read_header, read_table
from nodewise.results.importers import IMPORTERS
from nodewise.results.log_format import DECLARED

_RATE = re.compile(DECLARED["scalars"]["rate"], re.IGNORECASE | re.VERBOSE)
_OTHERS = re.compile(DECLARED["scalars"]["others"])

_START_BYTES = 100
MOST_BYTES = 500_000_000
_FLOATS = {1: "<f4", 2: "<f8"}  # of a tensor, by its type

_POOL = DescriptorPool()
_POOL.AddSerializedFile(ParseDict(DECLARED["events"], FileDescriptorProto()).SerializeToString())
_EVENT = GetMessageClass(_POOL.FindMessageTypeByName("Event"))


class ScalarsCsv:
    """Importer of CSV files with a column of each logged value."""

    def sniff(self, path: Path) -> bool:
        """Return whether it is CSV with the columns that these programs always write."""
        header = read_header(path) if path.suffix == ".csv" else set()
        return {"epoch", "step"} <= header or "Step" in header or "__MIN" in "".join(header)

    def read(self, path: Path) -> pd.DataFrame:
        """Return one row per value of the rate of training; see `training_rates`."""
        header, lines = read_table(path)
        columns = zip(*(values for _, values in lines), strict=False)
        logged = {  # TensorBoard exports one value, which the name of the file names
            path.stem if name == "Value" else name: [*filter(None, column)]
            for name, column in zip(header, columns, strict=False)
            if any(column)
        }
        return training_rates(path, logged)


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
        logged: dict[str, list[str]] = defaultdict(list)
        try:
            for event in _events(read_bytes(path, MOST_BYTES)):
                for value in _EVENT.FromString(event).summary.value:
                    if len(numbers := _numbers(value)) == 1:
                        logged[value.tag.decode(errors="replace")].append(str(numbers[0]))
        except (ValueError, DecodeError) as error:
            raise UserError(f"{path}: is damaged, or not an event file ({error})") from None
        return training_rates(path, logged)


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
    rates: dict[tuple[bool, bool, bool], list[str]] = defaultdict(list)  # the least are the best
    for name in sorted(logged):
        logged_as = name.rpartition(" - ")[2]  # after the name of a run
        rate, words = _RATE.search(name), set(re.split(r"[\W_]+", logged_as.lower()))
        if rate is None or any(map(_OTHERS.fullmatch, words)):
            continue
        # All devices make a step together. Lightning's global rate counts the batch of each.
        of_steps, of_device = rate["examples"] is None, bool(words & {"device", "gpu"})
        if of_steps or not of_device:
            # Keras' rate of an epoch includes its validation; that of a batch does not.
            rates[of_steps, not of_device, "epoch" in words].append(name)
    of_steps, _, of_epoch = best = min(rates, default=(False, False, False))
    if len(rates[best]) != 1:
        names = (rates[best] or sorted(logged))[:10]
        raise UserError(
            f"{path}: needs one rate of training, such as train/samples_per_sec or "
            f"epoch_steps_per_second; it has {', '.join(names) or 'none'}. "
            "`nodewise import --pattern` takes any column of CSV"
        )
    (name,) = rates[best]
    try:
        values = [parse_number(value, 1e-9, 1e12) for value in logged[name]]
    except ValueError as error:
        raise UserError(f"{path}: {name}: {error}") from None
    table = pd.DataFrame({"steps_per_s" if of_steps else "samples_per_s": values[1:] or values})
    validated = ", which includes any validation" if of_epoch else ""
    first = "; its first value is left out as warm-up" if len(values) > 1 else ""
    table.attrs["notes"] = [f"the rate of training is {name}{validated}{first}"]
    return table


def _events(content: bytes) -> Iterator[bytes]:
    """Yield the events of a file. The last may be incomplete: its program may still be running."""
    file = io.BytesIO(content)
    while (size := _checked(file, 8)) and (event := _checked(file, int.from_bytes(size, "little"))):
        yield event


def _checked(file: io.BytesIO, size: int) -> bytes:
    """Return the next `size` bytes, whose checksum follows them; empty at the end of the file."""
    at, part, right = file.tell(), file.read(size), file.read(4)
    if len(right) == 4 and checksum(part) != int.from_bytes(right, "little"):
        raise DecodeError(f"wrong checksum at byte {at:,}")
    return part if len(right) == 4 else b""


def _numbers(value: Message) -> list[float]:
    """Return the numbers of a logged value, if it is one of these types."""
    tensor = value.tensor
    packed = tensor.tensor_content if tensor.dtype in _FLOATS else b""
    unpacked = np.frombuffer(packed, _FLOATS.get(tensor.dtype))
    return [*value.simple_value, *tensor.float_val, *tensor.double_val, *unpacked.tolist()]


def checksum(content: bytes) -> int:
    """Return the masked CRC-32C of a part of a record, as TensorFlow writes it."""
    crc: int = google_crc32c.value(content)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF

"""Compression of gradients by a threshold, by the largest entries or by half precision.

A codec encodes float32 values as bytes that represent an approximation of them. The caller keeps
what the bytes leave out, and adds it to the next gradient (error feedback; Strom, "Scalable
distributed DNN training using commodity GPU cloud computing", Interspeech 2015).

The indices of the entries that are sent are encoded as gaps between them, in a Golomb–Rice code.
This module must not import TensorFlow.
"""

import math
import struct
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Indices = NDArray[np.int64]
FloatType = np.dtype[np.float16] | np.dtype[np.float32]
Octets = bytes | bytearray | memoryview

_COUNT = struct.Struct(">I")  # refuses more entries than it can count
_UNIT = struct.Struct(">f")
_SMALLEST_EXPONENT = -126
_GOLDEN_RATIO = (1 + math.sqrt(5)) / 2
_HALF = np.dtype("<f2")


class Update(NamedTuple):
    """The content of a message: `values` at `indices`, and zero elsewhere.

    `indices` are sorted, or a slice of all entries.
    """

    indices: Indices | slice
    values: Floats


class Codec(ABC):
    """Encodes float32 values, (size,), and decodes its own messages."""

    def __init__(self, size: int) -> None:
        self.size = size

    @abstractmethod
    def encode(self, values: Floats) -> bytes:
        """Return `values`, which must be finite, as bytes."""

    @abstractmethod
    def decode(self, message: Octets) -> Update:
        """Return the update that `message`, made by a codec like this one, represents."""


class Threshold(Codec):
    """Sends the index and the sign of each entry of at least ±`threshold`.

    The entry is decoded as ±`threshold`.
    """

    def __init__(self, size: int, threshold: float) -> None:
        super().__init__(size)
        self._threshold = np.float32(threshold)

    def encode(self, values: Floats) -> bytes:
        indices = np.flatnonzero(np.abs(values) >= self._threshold)
        signs = np.packbits(values[indices] < 0).tobytes()
        return _COUNT.pack(len(indices)) + signs + encode_indices(indices, self.size)

    def decode(self, message: Octets) -> Update:
        (count,) = _COUNT.unpack_from(message)
        rest = memoryview(message)[_COUNT.size :]
        negative = np.unpackbits(np.frombuffer(rest, np.uint8), count=count).astype(np.bool_)
        values = np.where(negative, -self._threshold, self._threshold)
        return Update(decode_indices(rest[_bytes(count) :], count, self.size), values)


class TopK(Codec):
    """Sends the `share` of entries with the largest magnitudes, in float16 or float32."""

    def __init__(self, size: int, share: float, values: str) -> None:
        super().__init__(size)
        self._count = max(1, round(share * size))
        self._type: FloatType = np.dtype(values).newbyteorder("<")

    def encode(self, values: Floats) -> bytes:
        largest = np.argpartition(np.abs(values), self.size - self._count)[-self._count :]
        indices = np.sort(largest)
        sent = _to_units(values[indices], self._type)
        return _COUNT.pack(len(indices)) + sent + encode_indices(indices, self.size)

    def decode(self, message: Octets) -> Update:
        (count,) = _COUNT.unpack_from(message)
        rest = memoryview(message)[_COUNT.size :]
        end = _UNIT.size + count * self._type.itemsize
        indices = decode_indices(rest[end:], count, self.size)
        return Update(indices, _from_units(rest[:end], self._type))


class Half(Codec):
    """Sends all entries in float16."""

    def encode(self, values: Floats) -> bytes:
        return _to_units(values, _HALF)

    def decode(self, message: Octets) -> Update:
        return Update(slice(None), _from_units(memoryview(message), _HALF))


def _to_units(values: Floats, kind: FloatType) -> bytes:
    """Return a scale, and `values` divided by it as numbers of type `kind`.

    The scale is a power of two, chosen so that the largest value comes close to the largest number
    of that type. Values that would be subnormal, which are imprecise and slow, become zero.
    """
    limits = np.finfo(kind)
    _, exponent = math.frexp(np.abs(values).max(initial=0))
    unit = 2.0 ** max(_SMALLEST_EXPONENT, exponent - limits.maxexp + 1)
    in_units = values / np.float32(unit)
    in_units[np.abs(in_units) < limits.tiny] = 0
    return _UNIT.pack(unit) + in_units.astype(kind).tobytes()


def _from_units(octets: memoryview, kind: FloatType) -> Floats:
    (unit,) = _UNIT.unpack_from(octets)
    values = np.frombuffer(octets[_UNIT.size :], kind).astype(np.float32)
    values *= np.float32(unit)
    return values


def rice_width(count: int, size: int) -> int:
    """Return the best Rice parameter, in bits, for the gaps between `count` of `size` indices.

    If indices are chosen with probability p = count/size, the gaps are geometrically distributed.
    For those the formula is that of Kiely, "Selecting the Golomb parameter in Rice coding" (2004).
    """
    if count in (0, size):
        return 0
    best = math.log(_GOLDEN_RATIO - 1) / math.log1p(-count / size)
    return max(0, 1 + math.floor(math.log2(best)))


def encode_indices(indices: Indices, size: int) -> bytes:
    """Encode `indices`: sorted, all different, each at least 0 and less than `size`.

    The lower `rice_width` bits of all gaps come first, padded to whole bytes at the end. The rest
    of each gap follows in unary code, as that many zeros and a one. This takes less than one bit
    per index more than the shortest possible code of as many random indices.
    """
    width = rice_width(len(indices), size)
    gaps = np.diff(indices, prepend=-1) - 1
    lower = (gaps[:, np.newaxis] >> np.arange(width)) & 1
    ends = np.cumsum((gaps >> width) + 1) - 1
    unary = np.zeros(ends[-1] + 1 if len(ends) else 0, np.bool_)
    unary[ends] = True
    return np.packbits(lower.astype(np.bool_)).tobytes() + np.packbits(unary).tobytes()


def decode_indices(code: Octets, count: int, size: int) -> Indices:
    """Decode the `count` indices less than `size` that `encode_indices` has encoded."""
    width = rice_width(count, size)
    start = _bytes(count * width)
    octets = np.frombuffer(code, np.uint8)
    lower = np.unpackbits(octets[:start], count=count * width).reshape(count, width)
    ends = np.flatnonzero(np.unpackbits(octets[start:]))
    gaps = (np.diff(ends, prepend=-1) - 1 << width) + lower @ (1 << np.arange(width))
    indices: Indices = np.cumsum(gaps + 1) - 1
    return indices


def _bytes(bits: int) -> int:
    return (bits + 7) // 8

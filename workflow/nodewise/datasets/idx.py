"""The IDX format of the MNIST family: a magic number, the dimensions, then one byte per value.

Format: http://yann.lecun.com/exdb/mnist (big-endian 32-bit integers; 0x08 stands for bytes).
"""

import hashlib
import math
import struct

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


def header(shape: tuple[int, ...]) -> bytes:
    """Return the first bytes of an IDX file of unsigned bytes with the dimensions of `shape`.

    The channel axis of images (N × H × W × 1) is not written: IDX images have none.
    """
    dimensions = shape[:3]
    return struct.pack(f">{1 + len(dimensions)}I", 0x800 + len(dimensions), *dimensions)


def size(shape: tuple[int, ...]) -> int:
    """Return the bytes of an IDX file that holds an array of `shape`."""
    return len(header(shape)) + math.prod(shape)


def parse(content: bytes, shape: tuple[int, ...]) -> Bytes:
    """Return the array in `content`, which must be of exactly `shape`. It is not copied.

    Raises:
        ValueError: another magic number, other dimensions, or bytes missing or left over.
    """
    expected = header(shape)
    if content[:4] != expected[:4]:
        raise ValueError(f"magic number 0x{content[:4].hex()}, expected 0x{expected[:4].hex()}")
    dimensions = content[4 : len(expected)]
    if len(dimensions) == len(expected) - 4 and dimensions != expected[4:]:
        found = "×".join(str(n) for (n,) in struct.iter_unpack(">I", dimensions))
        raise ValueError(f"dimensions {found}, expected {'×'.join(map(str, shape[:3]))}")
    if len(content) != size(shape):
        raise ValueError(f"{len(content):,} bytes, expected {size(shape):,}")
    return np.frombuffer(content, np.uint8, offset=len(expected)).reshape(shape)


def sha256(array: Bytes) -> str:
    """Return the SHA-256 of the IDX file that holds `array`: the same for read and drawn data."""
    digest = hashlib.sha256(header(array.shape))
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()

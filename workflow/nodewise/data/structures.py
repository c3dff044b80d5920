"""Structures of arrays as Keras accepts them: an array, or a tuple or dict of structures."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]
Structure = Any
"""An array, which may be ragged, or a tuple or dict (with text keys) of structures."""
KeyPath = tuple[int | str, ...]
"""Path to an array in a structure: indices of tuples and keys of dicts."""


@dataclass(frozen=True)
class Ragged:
    """An array whose rows differ in length, stored as the parts of a tf.RaggedTensor.

    `row_splits` has one array of row splits per ragged level, the outermost first. With one level,
    row i is `values[row_splits[0][i] : row_splits[0][i + 1]]`. With more levels, the splits of a
    level select rows of the next level.
    """

    values: Array
    row_splits: tuple[NDArray[np.int64], ...]

    def __len__(self) -> int:
        return len(self.row_splits[0]) - 1


def flat(structure: Structure, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yield the path and the array of each array in a structure of tuples, lists and dicts.

    Raises:
        ValueError: a dict has keys that are not text, or a part is None.
    """
    if isinstance(structure, tuple | list):
        for index, part in enumerate(structure):
            yield from flat(part, (*path, index))
    elif isinstance(structure, dict):
        for key, part in structure.items():
            if not isinstance(key, str):
                raise ValueError(f"the keys of a dict must be text, not {key!r}")
            yield from flat(part, (*path, key))
    elif structure is None:
        raise ValueError(f"the part at {path} is None; leave it out")
    else:
        yield path, structure


def nested(pairs: Iterable[tuple[KeyPath, Any]]) -> Structure:
    """Return the structure for which `flat` yields `pairs`. Lists become tuples.

    Raises:
        ValueError: there is no such structure.
    """
    arrays = dict(pairs)
    if () in arrays and len(arrays) == 1:
        return arrays[()]
    parts: dict[int | str, dict[KeyPath, Any]] = {}
    for (key, *rest), array in arrays.items():
        parts.setdefault(key, {})[tuple(rest)] = array
    made = {key: nested(part.items()) for key, part in parts.items()}
    if list(made) == list(range(len(made))):
        return tuple(made.values())
    if all(isinstance(key, str) for key in made):
        return made
    raise ValueError(f"{list(made)} are neither the indices of a tuple nor the keys of a dict")


def count(structure: Structure) -> int:
    """Return the number of examples in a structure: the length of its first array."""
    return len(next(array for _, array in flat(structure)))

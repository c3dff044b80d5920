"""Structures of arrays, as Keras takes them: an array, or a tuple or dict of structures."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]
Structure = Any
"""An array, ragged or not, or a tuple or dict (with text keys) of structures."""
KeyPath = tuple[int | str, ...]
"""The indices of tuples and keys of dicts that lead to an array of a structure."""


@dataclass(frozen=True)
class Ragged:
    """An array whose rows differ in length: the parts of a tf.RaggedTensor, outermost splits first.

    Row i of all is `values[row_splits[i] : row_splits[i + 1]]`; so for each level of rows in rows.
    """

    values: Array
    row_splits: tuple[NDArray[np.int64], ...]

    def __len__(self) -> int:
        return len(self.row_splits[0]) - 1


def flat(structure: Structure, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yield each array of a structure of tuples, lists and dicts, after its path.

    Raises:
        ValueError: a dict has keys that are not text.
    """
    if isinstance(structure, tuple | list):
        for index, part in enumerate(structure):
            yield from flat(part, (*path, index))
    elif isinstance(structure, dict):
        for key, part in structure.items():
            if not isinstance(key, str):
                raise ValueError(f"the keys of a dict must be text, not {key!r}")
            yield from flat(part, (*path, key))
    else:
        yield path, structure


def nested(pairs: Iterable[tuple[KeyPath, Any]]) -> Structure:
    """Return the structure of which `flat` yields `pairs`, with tuples for lists.

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
    """Return the number of examples of a structure."""
    return len(next(array for _, array in flat(structure)))

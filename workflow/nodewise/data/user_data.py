"""A user's own dataset: what their `load()` returned, checked and made arrays.

It may be NumPy arrays, or `tf.data.Dataset`s; TensorFlow is only there if the user's code uses it.
"""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nodewise.core.errors import UserError
from nodewise.core.progress import progress
from nodewise.core.user_function import Function, own_dataset_name, parse_spec
from nodewise.data.prepared import MOST_CLASSES, TYPES, Array, Arrays, Manifest, write

if TYPE_CHECKING:
    import tensorflow as tf

MOST_EXAMPLES = 10_000_000
_BATCH = 1000  # examples taken from a tf.data.Dataset at once
_EXPECTED = "must return ((x_train, y_train), (x_test, y_test)), or (train, test) tf.data.Datasets"


class _Part(NamedTuple):
    x: Array
    y: NDArray[np.uint8]


def prepare(spec: str, out: Path) -> Manifest:
    """Write what the user's function `spec` returns to the folder `out`, for `data.load`.

    Its classes are the numbers from 0 to the highest label.

    Raises:
        UserError: there is no such function, it failed, or it returned what cannot be used.
        OSError: `out` cannot be written.
    """
    function = Function(parse_spec(spec))
    name = function.place.text
    arrays = _arrays(function)
    classes = int(max(arrays.y_train.max(), arrays.y_test.max())) + 1
    if classes < 2:
        raise UserError(f"{name}: all labels are 0; there must be two classes or more")
    return write(
        out,
        arrays,
        dataset=own_dataset_name(spec),
        origin="own",
        title=name,
        classes=tuple(map(str, range(classes))),
    )


def _arrays(function: Function) -> Arrays:
    name = function.place.text
    returned = function()
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        raise UserError(f"{name}: {_EXPECTED}, not {_described(returned)}")
    with function.blamed():  # a tf.data.Dataset runs the user's code when it is read
        train = _part(f"{name}: train", returned[0])
        test = _part(f"{name}: test", returned[1])
    return Arrays(*train, *test)


def _part(name: str, pair: object) -> _Part:
    if _is_dataset(pair):
        pair = _drained(name, pair)
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise UserError(f"{name}: must be (x, y) or a tf.data.Dataset, not {_described(pair)}")
    x, y = pair
    for letter, array in (("x", x), ("y", y)):
        if not isinstance(array, np.ndarray):
            raise UserError(f"{name}: {letter} must be a NumPy array, not {_described(array)}")
    if x.ndim < 2 or x.size == 0 or x.shape[:1] != y.shape[:1]:
        raise UserError(
            f"{name}: x must be (examples, …) and y (examples,), with at least one example; x is "
            f"{x.shape}, y is {y.shape}"
        )
    if x.dtype.name not in TYPES:
        hint = {"f": "float32", "i": "int32", "u": "int32", "b": "uint8"}.get(x.dtype.kind)
        advice = f"; convert it: x.astype('{hint}')" if hint else ""
        raise UserError(f"{name}: x must be of {', '.join(TYPES)}, not {x.dtype.name}{advice}")
    return _Part(x.astype(x.dtype.newbyteorder("="), copy=False), _labels(name, y))


def _labels(name: str, y: Array) -> NDArray[np.uint8]:
    if y.ndim == 2 and y.shape[1] == 1:  # as Keras' own datasets have them
        y = y[:, 0]
    if y.ndim != 1 or y.dtype.kind not in "iu":
        advice = "; of one-hot rows take y.argmax(axis=1)" if y.ndim == 2 else ""
        raise UserError(
            f"{name}: y must be (examples,) of integers, not {y.shape} of {y.dtype.name}{advice}"
        )
    lowest, highest = int(y.min()), int(y.max())
    if lowest < 0 or highest >= MOST_CLASSES:
        raise UserError(
            f"{name}: labels must be 0 to {MOST_CLASSES - 1}; they are {lowest} to {highest}"
        )
    return y.astype(np.uint8)


def _is_dataset(value: object) -> bool:
    if not hasattr(value, "element_spec"):
        return False
    import tensorflow as tf  # here: it takes seconds, which nothing but a dataset is worth

    return isinstance(value, tf.data.Dataset)


def _drained(name: str, dataset: "tf.data.Dataset") -> tuple[Array, Array]:
    """Return all examples of a dataset of (x, y), batched or not, as two arrays."""
    import tensorflow as tf

    spec = dataset.element_spec
    parts = spec if isinstance(spec, tuple) else ()
    shapes = [part.shape for part in parts if isinstance(part, tf.TensorSpec)]
    if len(parts) != 2 or len(shapes) != 2 or None in [shape.rank for shape in shapes]:
        raise UserError(f"{name}: must have elements (x, y) of known rank, not {spec}")
    batched = shapes[1].rank == 1
    example = shapes[0][1:] if batched else shapes[0]
    if shapes[1].rank > 1 or (batched and shapes[0][:1].as_list() != shapes[1].as_list()):
        raise UserError(
            f"{name}: y must be one integer per example, () or in batches (batch,), not "
            f"{shapes[1]} beside x of {shapes[0]}"
        )
    if not example.is_fully_defined():
        raise UserError(f"{name}: all examples must have one known shape, not {example}")
    if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise UserError(f"{name}: is endless; leave out .repeat(), or end it with .take(n)")
    batches = dataset if batched else dataset.batch(_BATCH)
    taken: list[tuple[Array, Array]] = []
    examples = 0
    with progress(f"reading {name}", None) as advance:
        for x, y in batches.as_numpy_iterator():
            taken.append((x, y))
            examples += len(y)
            advance(len(y))
            if examples > MOST_EXAMPLES:
                raise UserError(f"{name}: has more than {MOST_EXAMPLES:,} examples, or no end")
    if not taken:
        raise UserError(f"{name}: is empty")
    return np.concatenate([x for x, _ in taken]), np.concatenate([y for _, y in taken])


def _described(value: object) -> str:
    """Return what a value is, for people: its type, and its length if it has one."""
    if value is None:
        return "nothing"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"

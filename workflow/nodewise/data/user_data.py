"""Prepare a user's own dataset: call the user's function and store its data as arrays.

The data is read as `fit` reads it. Keras' own data adapters turn every kind of data that `fit`
accepts into the batches that it passes to `train_step`. These batches are joined to arrays, from
which each cell makes batches of its own size.
"""

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nodewise.core.errors import UserError
from nodewise.core.progress import progress
from nodewise.core.user_function import Function, own_dataset_name, parse_spec, user_errors
from nodewise.data.manifest import Manifest
from nodewise.data.prepared import write
from nodewise.data.structures import Array, KeyPath, Ragged, Structure, flat, nested

if TYPE_CHECKING:
    import tensorflow as tf

MOST_EXAMPLES = 10_000_000
MOST_BYTES = 16 * 2**30  # per set, because a set is read into memory
_MOST_SECONDS = 300  # to read a set that does not say its length, which may be endless
_BATCH = 1000  # examples read at a time
_PARTS = ("x", "y", "sample_weight")
_SETS = "must return (train, test), where test may be None"
_END = "end it with .take(n) in place of fit's steps_per_epoch=n"
_KINDS = "(x, y) of arrays, (x, y, sample_weight), a tf.data.Dataset or a keras.utils.PyDataset"


def prepare(spec: str, out: Path) -> Manifest:
    """Call the user's function `spec` and write its data to the folder `out`, for `data.load`.

    Raises:
        UserError: there is no such function, it failed, or its result cannot be used.
        OSError: `out` cannot be written.
    """
    parsed = parse_spec(spec)
    from nodewise.data import quiet_tensorflow  # noqa: F401 (before the user's file imports it)

    function = Function(parsed)
    name = parsed.text
    train, test = _sets(name, function())
    with user_errors(parsed):  # datasets and generators run the user's code when they are read
        arrays = [
            None if examples is None else _read(f"{name}: {split}", examples)
            for split, examples in (("train", train), ("test", test))
        ]
    return write(out, *arrays, origin="own", dataset=own_dataset_name(spec), title=name)


def refuse(spec: str, out: Path, reason: str) -> None:
    """Write a manifest to the folder `out` that says why the data of `spec` cannot be used.

    Raises:
        OSError: `out` cannot be written.
    """
    about = {"dataset": own_dataset_name(spec), "title": spec, "refused": reason}
    write(out, None, None, origin="own", **about)


def _sets(name: str, returned: object) -> tuple[object, object]:
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        raise UserError(f"{name}: {_SETS}, not {_described(returned)}")
    train, test = returned
    for examples in (train, test):
        numbers = isinstance(examples, list) and len(examples) > len(_PARTS)
        if _is_array(examples) or isinstance(examples, dict) or numbers:
            raise UserError(
                f"{name}: {_SETS}; it returned (x, y): return ((x, y), None), or a test set in "
                "place of None"
            )
    if train is None:
        raise UserError(f"{name}: {_SETS}; train must not be None")
    return train, test


def _read(name: str, examples: object) -> Structure:
    """Return all examples of a set, in order and as `fit` would pass them to `train_step`."""
    adapter = _adapter(name, examples)
    adapter.on_epoch_begin()
    batches = adapter.get_tf_dataset()
    _check_spec(name, batches.element_spec)
    joined = _joined(name, batches, unknown=_may_be_endless(examples))
    adapter.on_epoch_end()
    _check_finite(name, joined)
    return joined


def _may_be_endless(examples: object) -> bool:
    """Return whether a set does not say its length."""
    import tensorflow as tf

    unknown = tf.data.UNKNOWN_CARDINALITY
    return isinstance(examples, tf.data.Dataset) and bool(examples.cardinality() == unknown)


def _check_finite(name: str, joined: Structure) -> None:
    """Check that x and sample weights have no NaN and no infinite numbers.

    In y they may be, because a loss can leave them out.

    Raises:
        UserError: they have.
    """
    parts = joined if isinstance(joined, tuple) else (joined,)
    for part, structure in zip(_PARTS, parts, strict=False):
        for path, array in flat(structure) if part != "y" else ():
            values = array.values if isinstance(array, Ragged) else array
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                raise UserError(f"{_where(name, part, path)} has numbers that are not finite")


def _where(name: str, part: str, path: KeyPath) -> str:
    return f"{name}: {part}{''.join(f'[{key!r}]' for key in path)}"


def _adapter(name: str, examples: object) -> Any:  # noqa: ANN401 (no types of its own)
    """Return Keras' data adapter for a set, which provides its batches as a tf.data.Dataset."""
    import keras
    import tensorflow as tf
    from keras.src.trainers.data_adapters import get_data_adapter  # private, but what `fit` calls

    if isinstance(examples, tuple | list):
        return get_data_adapter(*_arrays(name, examples), batch_size=_BATCH)
    if isinstance(examples, tf.data.Dataset):
        return get_data_adapter(_batched(name, examples))
    if isinstance(examples, keras.utils.PyDataset):
        if examples.num_batches is None:
            raise UserError(
                f"{name}: is endless; give the PyDataset a __len__, the number of its batches in "
                "an epoch, in place of fit's steps_per_epoch"
            )
        return get_data_adapter(examples)
    if hasattr(examples, "__len__") and hasattr(examples, "__iter__"):
        return get_data_adapter(_generator(examples))
    if hasattr(examples, "__next__"):
        raise UserError(
            f"{name}: a generator does not say where it ends; in place of fit's steps_per_epoch "
            "return an object with __iter__ and __len__, the number of its batches, or a "
            "keras.utils.PyDataset"
        )
    raise UserError(f"{name}: must be {_KINDS}, not {_described(examples)}")


def _arrays(name: str, examples: tuple[Any, ...] | list[Any]) -> list[Structure]:
    """Check that x, y and sample weights are arrays of equal length, and return them.

    Raises:
        UserError: they are not.
    """
    if not 1 <= len(examples) <= 3:
        raise UserError(f"{name}: must be {_KINDS}, not {_described(examples)}")
    parts = dict(zip(_PARTS, examples, strict=False))
    if parts.get("y") is None and parts.get("sample_weight") is not None:
        raise UserError(f"{name}: has sample weights, but no y")
    given = {part: value for part, value in parts.items() if value is not None or part == "x"}
    lengths = {
        _length(_where(name, part, path), array)
        for part, value in given.items()
        for path, array in _flat(f"{name}: {part}", value)
    }
    if len(lengths) > 1:
        counts = " and ".join(map(str, sorted(lengths)))
        raise UserError(
            f"{name}: all arrays must have equal numbers of examples; they have {counts}"
        )
    return [
        nested((path, _strings_as_tensor(array)) for path, array in flat(part))
        for part in given.values()
    ]


def _flat(where: str, structure: Structure) -> Iterator[tuple[KeyPath, Any]]:
    """Yield the paths and arrays of a structure of the user, see `flat`.

    Raises:
        UserError: a dict has keys that are not text.
    """
    try:
        yield from flat(structure)
    except ValueError as error:
        raise UserError(f"{where}: {error}") from error


def _length(where: str, array: Any) -> int:  # noqa: ANN401
    """Check that a value is an array of numbers or strings; return its number of examples.

    Raises:
        UserError: it is not.
    """
    if not _is_array(array):
        raise UserError(f"{where} must be an array, not {_described(array)}")
    if np.shape(array) == ():
        raise UserError(f"{where} must have examples, but is a single value")
    if isinstance(array, np.ndarray):
        objects = array.dtype.kind == "O" and not all(isinstance(one, str) for one in array)
        if objects or array.dtype.kind in "mM":
            kind = "Python objects" if objects else array.dtype.name
            raise UserError(f"{where} must have numbers or strings, not {kind}")
    _check_columns(where, array)
    return int(np.shape(array)[0])


def _check_columns(where: str, array: object) -> None:
    """Check that `fit` takes the types of a pandas Series or DataFrame.

    Raises:
        UserError: it does not.
    """
    import pandas as pd

    if isinstance(array, pd.DataFrame):
        columns = [(f"{where}[{name!r}]", dtype) for name, dtype in array.dtypes.items()]
    elif isinstance(array, pd.Series) and array.dtype.name != "string":
        columns = [(where, array.dtype)]
    else:
        return
    for column, dtype in columns:
        if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
            continue
        advice = ""
        if dtype.kind == "O":
            advice = "; text must be an array of its own: .to_numpy().astype(str)"
        elif dtype.kind in "biuf":
            advice = "; convert it to a type of NumPy: .astype('float32')"
        raise UserError(f"{column} must have numbers, not {dtype}{advice}")


def _strings_as_tensor(array: Any) -> Any:  # noqa: ANN401
    """Convert NumPy strings to a tensor; return other arrays unchanged.

    `fit` accepts strings only as tensors.
    """
    import tensorflow as tf

    strings = isinstance(array, np.ndarray) and array.dtype.kind in "SU"
    return tf.constant(array) if strings else array


def _batched(name: str, dataset: "tf.data.Dataset") -> "tf.data.Dataset":
    """Batch a dataset unless it is batched already.

    As in `fit`, each element is taken as a batch. It is not a batch if its arrays do not have the
    same number of examples.

    Raises:
        UserError: the dataset is endless, or has other than plain or ragged arrays.
    """
    import tensorflow as tf

    if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise UserError(f"{name}: is endless; leave out .repeat(), or {_END}")
    _check_spec(name, dataset.element_spec)
    lengths = {tuple(array.shape[:1]) for first in dataset.take(1) for _, array in flat(first)}
    if len(lengths) == 1 and () not in lengths:
        return dataset
    alike = all(part.shape.is_fully_defined() for _, part in flat(dataset.element_spec))
    return dataset.batch(_BATCH if alike else 1)


def _generator(examples: Any) -> Iterator[object]:  # noqa: ANN401
    for batch in itertools.islice(iter(examples), len(examples)):
        yield tuple(batch) if isinstance(batch, list) else batch


def _check_spec(name: str, spec: Structure) -> None:
    for _, part in _flat(name, spec):
        kind = type(part).__name__.removesuffix("Spec")
        if kind == "Optional":
            raise UserError(f"{name}: has None in place of an array; leave it out")
        if kind not in ("Tensor", "RaggedTensor"):
            sparse = "; make it dense by tf.sparse.to_dense or .toarray()"
            advice = sparse if kind == "SparseTensor" else ""
            raise UserError(f"{name}: has a {kind}, but must have plain or ragged arrays{advice}")


def _joined(name: str, batches: "tf.data.Dataset", *, unknown: bool) -> Structure:
    """Join the examples of all batches into arrays.

    Args:
        name: name of the set.
        batches: its batches.
        unknown: whether their number is unknown, so that they may be endless.

    Raises:
        UserError: there are no examples, too many of them, or they do not fit together.
    """
    begin = time.monotonic()
    taken: dict[KeyPath, list[Any]] = {}
    examples = size = 0
    with progress(f"reading {name}", None) as advance:
        for batch in batches:
            arrays = list(flat(batch))
            lengths = {array.shape[0] for _, array in arrays}
            if len(lengths) > 1:
                counts = " and ".join(map(str, sorted(lengths)))
                raise UserError(f"{name}: a batch has arrays of {counts} examples")
            for path, array in arrays:
                ragged = hasattr(array, "row_splits")
                values = _storable(name, (array.flat_values if ragged else array).numpy())
                taken.setdefault(path, []).append(array if ragged else values)
                size += values.nbytes
            (length,) = lengths
            examples += length
            advance(length)
            _check_limits(name, examples, size, time.monotonic() - begin if unknown else 0)
    if not examples:
        raise UserError(f"{name}: is empty")
    return nested((path, _concatenated(name, parts)) for path, parts in taken.items())


def _check_limits(name: str, examples: int, size: int, seconds: float) -> None:
    """Refuse a set that is too large, or that may be endless and has been read for too long.

    Raises:
        UserError: it is refused.
    """
    if seconds > _MOST_SECONDS:
        raise UserError(
            f"{name}: seems endless: no end after {examples:,} examples and {seconds:.0f} s; {_END}"
            "; if it has an end, say its number of elements: "
            ".apply(tf.data.experimental.assert_cardinality(n))"
        )
    if examples > MOST_EXAMPLES or size > MOST_BYTES:
        raise UserError(
            f"{name}: has more than {MOST_EXAMPLES:,} examples or {MOST_BYTES // 2**30} GiB, or no "
            f"end; {_END}"
        )


def _storable(name: str, array: Array) -> Array:
    if array.dtype != object:
        if array.dtype.kind not in "biuf":
            raise UserError(f"{name}: has {array.dtype.name}; allowed: numbers, booleans, strings")
        return array
    stored = array.astype("S")
    if (stored != array).any():
        raise UserError(f"{name}: strings must not end with a zero byte")
    return stored


def _concatenated(name: str, parts: list[Any]) -> Array | Ragged:
    if hasattr(parts[0], "row_splits"):
        import tensorflow as tf

        whole = tf.concat(parts, axis=0)
        values = _storable(name, whole.flat_values.numpy())
        return Ragged(values, tuple(splits.numpy() for splits in whole.nested_row_splits))
    shapes = {part.shape[1:] for part in parts}
    if len(shapes) > 1:
        some, other = itertools.islice(sorted(shapes), 2)
        raise UserError(f"{name}: all examples must have one shape; there are {some} and {other}")
    return np.concatenate(parts)


def _is_array(value: object) -> bool:
    return (hasattr(value, "shape") and hasattr(value, "dtype")) or hasattr(value, "__array__")


def _described(value: object) -> str:
    """Describe a value for a message: its type, and the length of a tuple or list."""
    if value is None:
        return "nothing"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"

"""Prepare a user's own dataset: call the user's function and store its data as arrays.

The data is read as `fit` reads it. Keras' own data adapters turn every kind of data that `fit`
accepts into the batches that it passes to `train_step`. These batches are joined to arrays, from
which each cell makes batches of its own size.
"""

import itertools
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nodewise.core.cell import Cell
from nodewise.core.errors import RefusedError, UserError
from nodewise.core.progress import progress
from nodewise.core.user_function import Function, own_dataset_name, parse_spec, user_errors
from nodewise.data.manifest import Manifest
from nodewise.data.prepared import write
from nodewise.data.structures import Array, KeyPath, Ragged, Structure, flat, nested

if TYPE_CHECKING:
    import tensorflow as tf

MOST_EXAMPLES = 10_000_000
MOST_BYTES = 16 * 2**30  # per set, because a set is read into memory
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

    name = parsed.text
    train, test = _sets(name, Function(parsed)())
    with user_errors(parsed):  # reading runs the user's code, and Keras checks the arrays
        arrays = [
            None if examples is None else _read(f"{name}: {split}", examples)
            for split, examples in (("train", train), ("test", test))
        ]
    return write(out, *arrays, origin="own", dataset=own_dataset_name(spec), title=name)


def own_batches(cell: Cell, rank: int, *, warm_up: int, steps: int) -> Iterator[Any]:
    """Return an iterator over the batches of worker `rank` from the user's own pipeline.

    The pipeline runs as it is; only its batches are made as large as the cell's.

    Args:
        cell: a cell with the input `own`.
        rank: rank of the worker.
        warm_up: number of batches before the first epoch, which begins anew.
        steps: largest number of batches in an epoch. Epochs follow each other without end.

    Raises:
        UserError: the function failed, or its result cannot be used or divided.
        RefusedError: the result starts processes, which could not import the user's file.
    """
    import keras
    import tensorflow as tf

    parsed = parse_spec(str(cell.load))
    keras.utils.set_random_seed(cell.seed)  # all workers shuffle alike
    train, _ = _sets(parsed.text, Function(parsed)())
    if getattr(train, "use_multiprocessing", False):
        raise RefusedError(f"{parsed.text}: use_multiprocessing is not allowed; workers=n is")

    def read() -> tuple[Any, tf.data.Dataset]:
        adapter = _adapter(parsed.text, train, cell.batch)
        return adapter, _divided(adapter.get_tf_dataset(), cell, rank).take(steps)

    with user_errors(parsed):
        _, epoch = read()
    tf.random.set_seed(cell.seed + rank)
    if not isinstance(train, keras.utils.PyDataset):
        return iter(epoch.repeat().take(warm_up).concatenate(epoch.repeat()))

    def passes() -> Iterator[Any]:
        warm = [*[steps] * (warm_up // steps), warm_up % steps]
        for lengths in (warm, itertools.repeat(steps)):
            # begin anew after the warm-up: Keras' threads keep batches that a pass did not take
            adapter, batches = read()
            for length in lengths:
                adapter.on_epoch_begin()
                yield from batches.take(length)
                adapter.on_epoch_end()

    return iter(tf.data.Dataset.from_generator(passes, output_signature=epoch.element_spec))


def _divided(dataset: "tf.data.Dataset", cell: Cell, rank: int) -> "tf.data.Dataset":
    """Return a worker's part of the examples of a dataset, in batches of the cell's size.

    They are divided as `fit` does under a distribution strategy: by file, by the same operation, if
    each worker gets one. Otherwise each worker runs the whole pipeline and keeps its part of every
    global batch. The dataset's own AutoShardPolicy decides, if it has one.
    """
    import tensorflow as tf

    policies = tf.data.experimental.AutoShardPolicy
    policy = dataset.options().experimental_distribute.auto_shard_policy
    whole = dataset.rebatch(cell.batch, drop_remainder=True)
    specs = tf.nest.flatten(whole.element_spec)
    if cell.nodes == 1 or policy == policies.OFF:
        return whole

    def by_file(index: int) -> tf.data.Dataset:
        variant = tf.raw_ops.AutoShardDataset(
            input_dataset=tf.data.experimental.to_variant(whole),
            num_workers=cell.nodes,
            index=index,
            output_types=[spec.dtype for spec in specs],
            output_shapes=[spec.shape for spec in specs],
            auto_shard_policy=policies.FILE.value,
        )
        return tf.data.experimental.from_variant(variant, whole.element_spec)

    if policy != policies.DATA and all(isinstance(spec, tf.TensorSpec) for spec in specs):
        with suppress(tf.errors.NotFoundError):  # it reads no files
            if next(iter(by_file(cell.nodes - 1)), None) is not None:  # the last worker has one
                return by_file(rank)
    return whole.shard(cell.nodes, rank)


def refuse(spec: str, out: Path, reason: str) -> None:
    """Write a manifest to the folder `out` that says why the data of `spec` cannot be used.

    Raises:
        OSError: `out` cannot be written.
    """
    write(out, None, None, origin="own", dataset=own_dataset_name(spec), title=spec, refused=reason)


def _sets(name: str, returned: object) -> tuple[object, object]:
    if not isinstance(returned, tuple | list) or len(returned) != 2 or returned[0] is None:
        raise UserError(f"{name}: {_SETS}")
    train, test = returned
    for examples in (train, test):
        numbers = isinstance(examples, list) and len(examples) > len(_PARTS)
        if hasattr(examples, "shape") or isinstance(examples, dict) or numbers:
            raise UserError(
                f"{name}: {_SETS}; it returned (x, y): return ((x, y), None), or a test set in "
                "place of None"
            )
    return train, test


def _read(name: str, examples: object) -> Structure:
    """Return all examples of a set, in order and as `fit` would pass them to `train_step`."""
    adapter = _adapter(name, examples)
    adapter.on_epoch_begin()
    joined = _joined(name, adapter.get_tf_dataset())
    adapter.on_epoch_end()
    parts = joined if isinstance(joined, tuple) else (joined,)
    for part, structure in zip(_PARTS, parts, strict=False):
        for path, array in flat(structure) if part != "y" else ():  # a loss can leave out a y
            values = array.values if isinstance(array, Ragged) else array
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                keys = "".join(f"[{key!r}]" for key in path)
                raise UserError(f"{name}: {part}{keys} has numbers that are not finite")
    return joined


def _adapter(name: str, examples: object, size: int = _BATCH) -> Any:  # noqa: ANN401 (no types of its own)
    """Return Keras' data adapter for a set, which provides its batches as a tf.data.Dataset.

    What has no batches yet gets batches of `size` examples.
    """
    import keras
    import tensorflow as tf
    from keras.src.trainers.data_adapters import get_data_adapter  # private, but what `fit` calls

    if isinstance(examples, tuple | list) and 1 <= len(examples) <= len(_PARTS):
        given = [part for part in examples if part is not None]
        if any(part is None for part in examples[: len(given)]):
            raise UserError(f"{name}: has sample weights, but no y")
        parts = [nested((path, _as_fit_takes(one)) for path, one in flat(part)) for part in given]
        return get_data_adapter(*parts, batch_size=size)
    if isinstance(examples, tf.data.Dataset):
        if examples.cardinality() == tf.data.INFINITE_CARDINALITY:
            raise UserError(f"{name}: is endless; leave out .repeat(), or {_END}")
        return get_data_adapter(_batched(examples, size))
    if isinstance(examples, keras.utils.PyDataset):
        if examples.num_batches is None:
            raise UserError(f"{name}: is endless; give the PyDataset a __len__")
        return get_data_adapter(examples)
    raise UserError(f"{name}: must be {_KINDS}, not {type(examples).__name__}")


def _as_fit_takes(array: Any) -> Any:  # noqa: ANN401
    """Check that a value is an array. Convert NumPy strings to a tensor, as `fit` wants them."""
    import tensorflow as tf

    if not getattr(array, "shape", ()):
        raise ValueError(f"must be arrays of examples, not {type(array).__name__}")
    strings = isinstance(array, np.ndarray) and array.dtype.kind in "SU"
    return tf.constant(array) if strings else array


def _batched(dataset: "tf.data.Dataset", size: int) -> "tf.data.Dataset":
    """Batch a dataset unless it is batched already.

    As in `fit`, each element is taken as a batch. It is not a batch if its arrays do not have the
    same number of examples.
    """
    lengths = {tuple(array.shape[:1]) for first in dataset.take(1) for _, array in flat(first)}
    if len(lengths) == 1 and () not in lengths:
        return dataset
    alike = all(part.shape.is_fully_defined() for _, part in flat(dataset.element_spec))
    return dataset.batch(size if alike else 1)


def _joined(name: str, batches: "tf.data.Dataset") -> Structure:
    """Join the examples of all batches into arrays.

    Raises:
        UserError: there are no examples, too many of them, or they do not fit together.
    """
    taken: dict[KeyPath, list[Any]] = {}
    examples = size = 0
    with progress(f"reading {name}", None) as show:
        for batch in batches:
            for path, array in flat(batch):
                if not hasattr(array, "numpy"):
                    raise UserError(f"{name}: make a {type(array).__name__} dense or ragged")
                ragged = hasattr(array, "row_splits")
                values = _storable(name, (array.flat_values if ragged else array).numpy())
                taken.setdefault(path, []).append(array if ragged else values)
                size += values.nbytes
            examples += array.shape[0]
            show(examples)
            if examples > MOST_EXAMPLES or size > MOST_BYTES:
                raise UserError(
                    f"{name}: has more than {MOST_EXAMPLES:,} examples or {MOST_BYTES // 2**30} "
                    f"GiB, or no end; {_END}"
                )
    if not examples:
        raise UserError(f"{name}: is empty")
    arrays = {path: _concatenated(name, parts) for path, parts in taken.items()}
    lengths = {len(array) for array in arrays.values()}
    if len(lengths) > 1:
        raise UserError(f"{name}: has arrays of {' and '.join(map(str, sorted(lengths)))} examples")
    return nested(arrays.items())


def _storable(name: str, array: Array) -> Array:
    if array.dtype.kind in "biuf":
        return array
    stored = array.astype("S") if array.dtype == object else array
    if stored.dtype.kind != "S" or (stored != array).any():
        raise UserError(
            f"{name}: has {array.dtype.name}; allowed: numbers, booleans, and strings that do not "
            "end with a zero byte"
        )
    return stored


def _concatenated(name: str, parts: list[Any]) -> Array | Ragged:
    if hasattr(parts[0], "row_splits"):
        import tensorflow as tf

        whole = tf.concat(parts, axis=0)
        values = _storable(name, whole.flat_values.numpy())
        return Ragged(values, tuple(splits.numpy() for splits in whole.nested_row_splits))
    shapes = sorted({part.shape[1:] for part in parts})
    if len(shapes) > 1:
        raise UserError(
            f"{name}: all examples must have one shape; there are {shapes[0]} and {shapes[1]}"
        )
    return np.concatenate(parts)

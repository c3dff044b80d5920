"""The tf.data pipeline of a worker: reads examples, prepares them and yields batches.

This module imports TensorFlow. A node has one core, so its pipeline has one thread. It reads the
next batches during the training, and slows the training down accordingly.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from nodewise.core.cell import Cell
from nodewise.core.errors import UserError
from nodewise.data import Dataset
from nodewise.data.structures import Array, Ragged, Structure
from nodewise.data.user_data import own_batches

if TYPE_CHECKING:
    from nodewise.models.training import Recipe

Batch = Any
"""What `fit` passes to `train_step`: usually (x, y) or (x, y, sample_weight), see `Dataset`."""

# AutoGraph would leave a temporary file per function behind, because workers are killed
_plain = tf.autograph.experimental.do_not_convert

_READ_AHEAD = 2  # batches
_WARM_UP_EPOCHS = 1_000_000  # number of the first warm-up epoch; no timed training gets this far
_BLOCK = 1000  # examples
_SHUFFLED_AHEAD = 2 * _BLOCK
_WHOLE = ("unsharded", "whole")  # inputs for which a worker reads whole global batches


def steps_per_epoch(cell: Cell, examples: int) -> int:
    """Return the number of whole global batches in `examples`. The remainder is not used."""
    return examples // cell.global_batch


def shard(examples: int, workers: int, rank: int, seed: int) -> NDArray[np.int64]:
    """Return the sorted row indices of the shard of worker `rank`.

    A shard is a part of a permutation of all rows. The shards of all ranks are disjoint and cover
    all rows. Their sizes differ by at most one; lower ranks have the larger shards.

    Raises:
        ValueError: `rank` is not below `workers`, or a count is negative.
    """
    if not 0 <= rank < workers:
        raise ValueError(f"rank {rank} of {workers} workers")
    order = np.random.default_rng(seed).permutation(examples)
    return np.sort(np.array_split(order, workers)[rank])


def rows_read(cell: Cell, examples: int, rank: int) -> NDArray[np.int64]:
    """Return the sorted indices of the training examples that worker `rank` itself may read."""
    if cell.input == "sharded":
        return shard(examples, cell.nodes, rank, cell.seed)
    return np.arange(0 if cell.input in ("service", "own") else examples)


def orders(cell: Cell, examples: int, rank: int, warm_up: int) -> Iterator[NDArray[np.int64]]:
    """Yield the order in which worker `rank` reads its examples: for the warm-up, then each epoch.

    Every epoch has its own random order, which is the same at every launch. A worker that reads all
    examples reads whole global batches, in the same order as the other workers.

    Args:
        cell: the cell.
        examples: number of training examples.
        rank: rank of the worker.
        warm_up: number of warm-up steps.

    Yields:
        Indices into the result of `rows_read`, (steps, examples per step).
    """
    mine = len(rows_read(cell, examples, rank))
    each = _batch_read(cell)
    seed = cell.seed if cell.input in _WHOLE else cell.seed + rank
    steps = steps_per_epoch(cell, examples)

    def epoch(number: int) -> NDArray[np.int64]:
        order = np.random.default_rng([seed, number]).permutation(mine)
        return order[: steps * each].reshape(steps, each)

    for number in range(math.ceil(warm_up / steps)):
        yield epoch(_WARM_UP_EPOCHS + number)[: warm_up - number * steps]
    yield from map(epoch, itertools.count())


def _batch_read(cell: Cell) -> int:
    return cell.global_batch if cell.input in _WHOLE else cell.batch


def batches(
    cell: Cell, data: Dataset, recipe: "Recipe", rank: int, *, warm_up: int, service: str = ""
) -> Iterator[Batch]:
    """Return an endless iterator over the batches of worker `rank`: warm-up, then all epochs.

    Args:
        cell: the cell. Its `input` decides which node reads and prepares which examples.
        data: the examples.
        recipe: the model's `preprocess` and `augment`.
        rank: rank of a node that trains.
        warm_up: number of batches before the first epoch.
        service: `grpc://host:port` of the data service, if the cell's input is `service`.

    Returns:
        Batches as `fit` passes them to `train_step`: tensors (batch, …), with x prepared for the
        model. A batch has `cell.batch` examples, or those of the global batch if the input is
        `whole`.

    Raises:
        UserError: the cell's input cannot read such data.
    """
    if cell.input == "own":
        steps = steps_per_epoch(cell, data.train_examples)
        return own_batches(cell, rank, warm_up=warm_up, steps=steps)
    # workers augment differently, unless they have to train on the same examples
    tf.random.set_seed(cell.seed + (0 if cell.input == "whole" else rank))
    if cell.input == "service":
        stream = _served(cell, data, recipe, service)
    else:
        stream = _map(_read(cell, data, warm_up, rank), _prepare(recipe))
    if cell.input == "unsharded":
        part = slice(rank * cell.batch, (rank + 1) * cell.batch)
        stream = _map(stream, lambda batch: tf.nest.map_structure(lambda array: array[part], batch))
    one_thread = tf.data.Options()
    one_thread.threading.private_threadpool_size = 1
    one_thread.threading.max_intra_op_parallelism = 1
    one_thread.autotune.enabled = False
    one_thread.deterministic = True
    return iter(stream.prefetch(_READ_AHEAD).with_options(one_thread))


def batch_spec(cell: Cell, data: Dataset, recipe: "Recipe") -> Batch:
    """Return the structure of a worker's batch, with a tf.TypeSpec in place of each tensor.

    No tensors are created, because strategies require that TensorFlow is not initialised yet.
    """
    examples = cell.global_batch if cell.input == "whole" else cell.batch
    with tf.Graph().as_default():
        raw = tf.nest.map_structure(lambda array: _placeholder(array, examples), data.train)
        return tf.nest.map_structure(tf.type_spec_from_value, _prepare(recipe)(raw))


def _placeholder(array: Array | Ragged, examples: int) -> tf.Tensor | tf.RaggedTensor:
    if not isinstance(array, Ragged):
        return tf.compat.v1.placeholder(array.dtype, (examples, *array.shape[1:]))
    depth, shape = len(array.row_splits), array.values.shape[1:]
    return tf.compat.v1.ragged.placeholder(array.values.dtype, depth, shape)


def evaluation_batches(
    data: Dataset, recipe: "Recipe", rows: NDArray[np.int64], size: int
) -> Iterator[Batch]:
    """Yield batches of the test examples `rows`, in this order, prepared for the model.

    Args:
        data: the dataset.
        recipe: the model's `preprocess`.
        rows: indices of test examples.
        size: examples per batch; the last batch may be smaller.
    """
    for start in range(0, len(rows), size):
        raw = _in_memory(data.test, rows[start : start + size])
        yield _on_x(recipe.preprocess, raw)


def _read(cell: Cell, data: Dataset, warm_up: int, rank: int) -> tf.data.Dataset:
    """Return the raw batches of a worker that reads its examples itself, all into memory."""
    rows = rows_read(cell, data.train_examples, rank)
    read = _in_memory(data.train, rows)
    epochs = tf.data.Dataset.from_generator(
        lambda: orders(cell, data.train_examples, rank, warm_up),
        output_signature=tf.TensorSpec([None, _batch_read(cell)], tf.int64),
    )
    steps = epochs.flat_map(_plain(tf.data.Dataset.from_tensor_slices))
    return _map(
        steps, lambda step: tf.nest.map_structure(lambda array: tf.gather(array, step), read)
    )


def _in_memory(structure: Structure, rows: NDArray[np.int64]) -> Batch:
    """Return the given rows of all arrays of a structure, as tensors."""
    return tf.nest.map_structure(lambda array: _rows(array, rows), structure)


def _rows(array: Array | Ragged, rows: NDArray[np.int64]) -> tf.Tensor | tf.RaggedTensor:
    if isinstance(array, Ragged):
        return tf.gather(
            tf.RaggedTensor.from_nested_row_splits(array.values, array.row_splits), rows
        )
    if isinstance(array, np.memmap) and array.filename:
        # read through a separate mapping, so that its pages are freed with it
        array = np.memmap(array.filename, array.dtype, "r", array.offset, array.shape)
    return tf.constant(array[rows])


def _served(cell: Cell, data: Dataset, recipe: "Recipe", service: str) -> tf.data.Dataset:
    """Return the batches that preprocessing nodes make. Each batch goes to the first worker to ask.

    Each preprocessing node requests blocks of examples and opens the files itself. Together the
    nodes go through all blocks repeatedly. Because examples are shuffled, one may come a little
    before or after the epoch to which it belongs.
    """
    blocks = math.ceil(data.train_examples / _BLOCK)

    def read(block: tf.Tensor) -> tf.data.Dataset:
        arrays = tf.nest.map_structure(lambda array: _records(array, block), data.train)
        return tf.data.Dataset.zip(arrays)

    raw = (
        tf.data.Dataset.range(blocks)
        .shuffle(blocks, seed=cell.seed)
        .repeat()
        .flat_map(_plain(read))
        .shuffle(_SHUFFLED_AHEAD, seed=cell.seed)
        .batch(cell.batch, drop_remainder=True)
    )
    return (
        _map(raw, _prepare(recipe))
        .prefetch(_READ_AHEAD)
        .apply(
            tf.data.experimental.service.distribute(
                processing_mode=tf.data.experimental.service.ShardingPolicy.DYNAMIC,
                service=service,
                job_name="training",
            )
        )
    )


def _records(array: Array | Ragged, block: tf.Tensor) -> tf.data.Dataset:
    """Return the rows of a block of a memory-mapped .npy file, read by TensorFlow.

    TensorFlow reads them because a pipeline that calls Python cannot be sent to another node.

    Raises:
        UserError: the array is ragged or has strings.
    """
    if isinstance(array, Ragged) or array.dtype.kind == "S":
        what = "ragged arrays" if isinstance(array, Ragged) else "strings"
        raise UserError(f"input: service cannot read {what}; allowed here: sharded, unsharded")
    if not isinstance(array, np.memmap):
        raise TypeError("the data service serves memory-mapped arrays only")
    shape, kind = array.shape[1:], array.dtype
    # the types that TensorFlow decodes do not include uint32 and uint64
    decoded = kind.name.removeprefix("u") if kind.itemsize >= 4 else kind.name

    def example(row: tf.Tensor) -> tf.Tensor:
        values = tf.reshape(tf.io.decode_raw(row, decoded), shape)
        return values if decoded == kind.name else tf.bitcast(values, kind)

    rows = tf.data.FixedLengthRecordDataset(
        str(array.filename), math.prod(shape) * kind.itemsize, header_bytes=array.offset
    )
    return rows.skip(block * _BLOCK).take(_BLOCK).map(_plain(example))


def _prepare(recipe: "Recipe") -> Callable[[Batch], Batch]:
    return partial(_on_x, lambda x: recipe.augment(recipe.preprocess(x)))


def _on_x(function: Callable[[Any], Any], batch: Batch) -> Batch:
    """Apply a function to the x of a batch. A batch that is not a tuple consists of x only."""
    if not isinstance(batch, tuple):
        return function(batch)
    x, *others = batch
    return function(x), *others


def _map(stream: tf.data.Dataset, function: Callable[[Batch], Batch]) -> tf.data.Dataset:
    """Map a function over batches. `stream.map` alone would pass a tuple as separate arguments."""
    parted = isinstance(stream.element_spec, tuple)
    return stream.map(_plain(lambda *parts: function(parts if parted else parts[0])))

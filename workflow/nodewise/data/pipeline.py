"""How examples reach a worker: read, prepared and handed over by a tf.data pipeline of its own.

Imports TensorFlow. A node has one core, so its pipeline has one thread: reading the next batches
goes on beside the training, and takes its time from it.
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
from nodewise.data import Dataset, shard
from nodewise.data.structures import Array, Ragged, Structure

if TYPE_CHECKING:
    from nodewise.models.training import Recipe

Batch = Any
"""What `fit` hands to `train_step`: mostly (x, y) or (x, y, sample_weight), see `Dataset.train`."""

# AutoGraph would leave a file per function: workers do not exit, they are ended
_plain = tf.autograph.experimental.do_not_convert

_READ_AHEAD = 2  # batches
_WARM_UP_EPOCHS = 1_000_000  # numbers of epochs that no timed training reaches
_BLOCK = 1000  # examples
_SHUFFLED_AHEAD = 2 * _BLOCK
_SERVED_JOB = "training"
_WHOLE = ("unsharded", "whole")  # inputs with which a worker reads whole global batches


def steps_per_epoch(cell: Cell, examples: int) -> int:
    """Return the whole global batches in `examples`; the rest is left over.

    Raises:
        ValueError: there is not even one.
    """
    steps = examples // cell.global_batch
    if steps == 0:
        raise ValueError(
            f"a global batch of {cell.global_batch} is larger than the {examples} examples"
        )
    return steps


def rows_read(cell: Cell, examples: int, rank: int) -> NDArray[np.int64]:
    """Return the training examples that worker `rank` itself reads in an epoch, sorted."""
    if cell.input == "sharded":
        return shard(examples, cell.nodes, rank, cell.seed)
    return np.arange(0 if cell.input == "service" else examples)


def orders(cell: Cell, examples: int, rank: int, warm_up: int) -> Iterator[NDArray[np.int64]]:
    """Yield what worker `rank` reads: for `warm_up` steps first, then for one epoch after another.

    Each is (steps, examples per step), indices into `rows_read`. Every epoch has an order of its
    own, the same at every launch. A worker that reads all examples reads whole global batches, the
    same ones as its peers.
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
    """Return the batches of worker `rank`, without end: `warm_up` ones, then those of every epoch.

    Args:
        cell: what is measured; its `input` decides who reads and prepares what.
        data: the examples.
        recipe: the model's `preprocess` and `augment`.
        rank: of a node that trains.
        warm_up: batches before the first epoch.
        service: `grpc://host:port` of the data service, if that is the cell's input.

    Returns:
        What `fit` hands to `train_step`, of tensors (batch, …), x prepared for the model; `batch`
        examples or, with input whole, those of the global batch.

    Raises:
        UserError: the cell's input cannot read such data.
    """
    # augmentation differs from worker to worker, unless they are to train on the same examples
    tf.random.set_seed(cell.seed + (0 if cell.input == "whole" else rank))
    if cell.input == "service":
        stream = _served(cell, data, recipe, service)
    else:
        stream = _map(_read(cell, data, warm_up, rank), _prepare(recipe))
    if cell.input == "unsharded":
        part = slice(rank * cell.batch, (rank + 1) * cell.batch)
        stream = _map(stream, lambda batch: tf.nest.map_structure(lambda array: array[part], batch))
    return iter(stream.prefetch(_READ_AHEAD).with_options(_one_thread()))


def batch_spec(cell: Cell, data: Dataset, recipe: "Recipe") -> Batch:
    """Return the batch that a worker trains on, with a tf.TensorSpec in place of each tensor.

    No tensor is made: a strategy must find TensorFlow as it is at the start.
    """
    examples = cell.global_batch if cell.input == "whole" else cell.batch
    with tf.Graph().as_default():
        raw = tf.nest.map_structure(lambda array: _placeholder(array, examples), data.train)
        return tf.nest.map_structure(_spec, _prepare(recipe)(raw))


def _placeholder(array: Array | Ragged, examples: int) -> tf.Tensor | tf.RaggedTensor:
    if not isinstance(array, Ragged):
        return tf.compat.v1.placeholder(array.dtype, (examples, *array.shape[1:]))
    depth, shape = len(array.row_splits), array.values.shape[1:]
    return tf.compat.v1.ragged.placeholder(array.values.dtype, depth, shape)


def _spec(tensor: tf.Tensor | tf.RaggedTensor) -> tf.TypeSpec:
    if isinstance(tensor, tf.RaggedTensor):
        return tf.RaggedTensorSpec.from_value(tensor)
    return tf.TensorSpec(tensor.shape, tensor.dtype)


def evaluation_batches(
    data: Dataset, recipe: "Recipe", rows: NDArray[np.int64], size: int
) -> Iterator[Batch]:
    """Yield the test examples `rows` in their order, `size` at once, prepared for the model."""
    for start in range(0, len(rows), size):
        raw = _in_memory(data.test, rows[start : start + size])
        yield _on_x(recipe.preprocess, raw)


def _read(cell: Cell, data: Dataset, warm_up: int, rank: int) -> tf.data.Dataset:
    """Return the raw batches that a worker reads for itself: its own examples, kept in memory."""
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
        # through a mapping of its own, whose pages go with it
        array = np.memmap(array.filename, array.dtype, "r", array.offset, array.shape)
    return tf.constant(array[rows])


def _served(cell: Cell, data: Dataset, recipe: "Recipe", service: str) -> tf.data.Dataset:
    """Return the batches that preprocessing nodes make; each goes to the worker that asks first.

    A preprocessing node asks for a block of examples, and opens their files itself; together they
    go through all blocks, then again. Shuffled, an example may come a little before or after the
    epoch that it belongs to.
    """
    blocks = math.ceil(data.train_examples / _BLOCK)
    raw = (
        tf.data.Dataset.range(blocks)
        .shuffle(blocks, seed=cell.seed)
        .repeat()
        .flat_map(_plain(lambda block: _block(data, block)))
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
                job_name=_SERVED_JOB,
            )
        )
    )


def _block(data: Dataset, block: tf.Tensor) -> tf.data.Dataset:
    return tf.data.Dataset.zip(
        tf.nest.map_structure(lambda array: _records(array, block), data.train)
    )


def _records(array: Array | Ragged, block: tf.Tensor) -> tf.data.Dataset:
    """Return the rows of one block of a memory-mapped .npy file, read by TensorFlow itself.

    What Python reads cannot be sent to another node.
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
    """Apply a function to x of a batch, which is x alone if it is no tuple."""
    if not isinstance(batch, tuple):
        return function(batch)
    x, *others = batch
    return function(x), *others


def _map(stream: tf.data.Dataset, function: Callable[[Batch], Batch]) -> tf.data.Dataset:
    """Map batches; `stream.map` would hand over the parts of a tuple one by one."""
    parted = isinstance(stream.element_spec, tuple)
    return stream.map(_plain(lambda *parts: function(parts if parted else parts[0])))


def _one_thread() -> tf.data.Options:
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    options.threading.max_intra_op_parallelism = 1
    options.autotune.enabled = False
    options.deterministic = True
    return options

"""Measure the memory of a process that trains a model: the peak of real steps, by batch.

Each batch is trained in a process of its own, with the settings of a cell's workers: one that has
trained before keeps the memory that it had.
"""

import json
import os
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from nodewise.cluster import memory
from nodewise.cluster.api import NO_GPU
from nodewise.cluster.worker import reason_of
from nodewise.core.cell import Cell
from nodewise.core.errors import UserError
from nodewise.results.model_description import Memory

BATCHES = (4, 16, 64, 256, 1024)
ENOUGH_BYTES = 500_000_000  # by which a batch must need more than the first: far above the noise
_ENOUGH_PEAKS = 3  # for a line
_STEPS = 3  # the first one allocates, the next ones may still grow


def measure_memory(cell: Cell, manifest: Path | None, most: int = BATCHES[-1]) -> Memory:
    """Train a few steps of the cell's model with larger and larger batches; return what they take.

    Args:
        cell: on one node; its batch does not matter.
        manifest: of the dataset that batches are read from; without one they are zeros, labels
            among them.
        most: the largest batch that there are examples for.

    Raises:
        UserError: a process did not come to its end.
    """
    peaks: dict[int, int] = {}
    sizes: dict[str, int] = {}
    for batch in [one for one in BATCHES if one <= most] or [most]:
        try:
            seen = measure_step(cell.model_copy(update={"batch": batch}), manifest)
        except UserError:
            if len(peaks) < _ENOUGH_PEAKS:
                raise
            break  # this machine has no memory for it, which the line says, too
        peaks[batch] = seen.pop("peak_bytes")
        sizes = seen
        if peaks[batch] - min(peaks.values()) > ENOUGH_BYTES:
            break
    fixed, each = _line(peaks)
    return Memory(fixed_bytes=fixed, bytes_per_example=each, measured=peaks, **sizes)


def _line(peaks: dict[int, int]) -> tuple[int, int]:
    """Return the line through the peaks whose relative errors are least, none below zero."""
    batches, sizes = np.array(list(peaks)), np.array(list(peaks.values()))
    if len(peaks) == 1:
        return int(sizes[0]), 0
    each, fixed = np.polyfit(batches, sizes, 1, w=1 / sizes)
    return max(0, round(fixed)), max(0, round(each))


def measure_step(cell: Cell, manifest: Path | None) -> dict[str, int]:
    """Train a few steps in a new process; return its peak and the sizes of what it holds.

    Raises:
        UserError: it did not come to its end.
    """
    fresh = get_context("spawn")
    receiver, sender = fresh.Pipe(duplex=False)
    process = fresh.Process(target=_train, args=(cell, manifest, sender))
    process.start()
    sender.close()
    try:
        seen: dict[str, int] | str = json.loads(receiver.recv_bytes())
    except EOFError:
        process.join()
        raise UserError(
            f"{cell.model}: the process that trained a batch of {cell.batch} ended with exit code "
            f"{process.exitcode}; what it printed is above"
        ) from None
    process.join()
    if isinstance(seen, str):
        raise UserError(f"{cell.model}: a batch of {cell.batch} was not trained: {seen}")
    return seen


def _train(cell: Cell, manifest: Path | None, sender: Connection) -> None:
    """Send the sizes, or in one line why there are none."""
    os.environ["CUDA_VISIBLE_DEVICES"] = NO_GPU  # the memory of this machine is measured
    try:
        answer: dict[str, int] | str = _sizes(cell, manifest)
    except Exception as error:
        answer = reason_of(error)
    sender.send_bytes(json.dumps(answer).encode())


def _sizes(cell: Cell, manifest: Path | None) -> dict[str, int]:
    """Train a few steps; return the peak of this process, and the sizes of what it holds."""
    from nodewise.measure.node import compute_with
    from nodewise.models.contents import optimizers_of
    from nodewise.strategies import STRATEGIES
    from nodewise.strategies.api import Job

    compute_with(1)
    build, spec, batch = _inputs(cell, manifest)
    job = Job(0, 1, cell.batch, cell.seed, build, batch=spec)
    strategy = STRATEGIES["single"].worker().Strategy(job)
    for _ in range(_STEPS):
        strategy.step(batch)
    model = strategy.model
    weights = {id(one): one for one in model.weights}
    states = {id(one): one for o in optimizers_of(model) for one in o.variables}
    return {
        "peak_bytes": _peak_bytes(),
        "weights_bytes": _bytes(weights.values()),
        "gradients_bytes": _bytes(model.trainable_variables),
        "optimizer_bytes": _bytes(one for key, one in states.items() if key not in weights),
    }


def _inputs(cell: Cell, manifest: Path | None) -> tuple[Any, Any, Any]:
    """Return what builds the model, the spec of a batch, and a batch."""
    import tensorflow as tf

    from nodewise.data import load
    from nodewise.data.pipeline import batch_spec, batches
    from nodewise.models import registry
    from nodewise.models.describe import zeros_spec
    from nodewise.models.training import recipe_of

    if manifest is None:
        build = registry.load(cell.model).build
        spec = zeros_spec(build(), cell.batch)
        return build, spec, tf.nest.map_structure(lambda one: tf.zeros(one.shape, one.dtype), spec)
    data = load(manifest)
    recipe = recipe_of(cell, data)
    batch = next(iter(batches(cell, data, recipe, 0, warm_up=1)))
    return recipe.build, batch_spec(cell, data, recipe), batch


def _bytes(variables: Any) -> int:  # noqa: ANN401
    return sum(int(np.prod(one.shape)) * one.value.dtype.size for one in variables)


def _peak_bytes() -> int:
    """Return the most memory that this process has held, without what it shares with all others.

    Those are pages of files, which are in memory once: the libraries.
    """
    return memory.peak_bytes(os.getpid()) - memory.status_bytes(os.getpid(), "RssFile")

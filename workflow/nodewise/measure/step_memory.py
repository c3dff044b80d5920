"""Measure the peak memory of a process that trains a model, for several batch sizes.

Each batch size is trained in a new process with the settings of a cell's workers, because a process
that has trained before keeps the memory that it had.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np

from nodewise.cluster import memory
from nodewise.cluster.api import NO_GPU
from nodewise.core.cell import Cell
from nodewise.core.errors import UserError
from nodewise.core.progress import progress
from nodewise.measure.fresh_process import EndedEarlyError, run_fresh
from nodewise.results.model_description import Memory

BATCHES = (4, 16, 64, 256, 1024)
ENOUGH_BYTES = 500_000_000  # stop at a batch that needs so much more than the least: above noise
_ENOUGH_PEAKS = 3  # enough to fit a line
_STEPS = 3  # the first one allocates, the next ones may still grow


def measure_memory(cell: Cell, manifest: Path | None, most: int = BATCHES[-1]) -> Memory:
    """Train a few steps of the cell's model with increasing batch sizes; return the memory used.

    Args:
        cell: a cell on one node; its batch is ignored.
        manifest: the manifest of the dataset that batches are read from; without one, inputs and
            labels are zeros.
        most: the largest batch that there are examples for.

    Raises:
        UserError: a process failed.
    """
    peaks: dict[int, int] = {}
    with progress(f"{cell.model}: memory of training", len(BATCHES)) as show:
        for batch in [one for one in BATCHES if one <= most] or [most]:
            one = cell.model_copy(update={"batch": batch})
            try:
                seen = run_fresh(sizes_of_training, one, manifest)
            except EndedEarlyError as error:
                if len(peaks) < _ENOUGH_PEAKS:
                    raise UserError(f"{cell.model}: batch {batch} failed: {error}") from error
                break  # this machine has too little memory for it, which the line shows, too
            peaks[batch] = seen.pop("peak_bytes")
            show(len(peaks))
            if peaks[batch] - min(peaks.values()) > ENOUGH_BYTES:
                break
    fixed, each = _line(peaks)
    return Memory(fixed_bytes=fixed, bytes_per_example=each, measured=peaks, **seen)


def _line(peaks: dict[int, int]) -> tuple[int, int]:
    """Fit a line to the peaks by least relative errors; return intercept and slope, at least 0."""
    batches, sizes = np.array(list(peaks)), np.array(list(peaks.values()))
    if len(peaks) == 1:
        return int(sizes[0]), 0
    each, fixed = np.polyfit(batches, sizes, 1, w=1 / sizes)
    return max(0, round(fixed)), max(0, round(each))


def sizes_of_training(cell: Cell, manifest: Path | None) -> dict[str, int]:
    """Train a few steps; return the peak memory of this process and the sizes of its variables."""
    os.environ["CUDA_VISIBLE_DEVICES"] = NO_GPU  # measure main memory, not that of a GPU
    from nodewise.data import quiet_tensorflow  # noqa: F401 (before anything else imports it)
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
    here = os.getpid()
    states = {id(one): one for o in optimizers_of(model) for one in o.variables}
    return {
        # without pages of files, mostly libraries, which are in memory once for all processes
        "peak_bytes": memory.status_bytes(here, "VmHWM") - memory.status_bytes(here, "RssFile"),
        "weights_bytes": _bytes(weights.values()),
        "gradients_bytes": _bytes(model.trainable_variables),
        "optimizer_bytes": _bytes(one for key, one in states.items() if key not in weights),
    }


def _inputs(cell: Cell, manifest: Path | None) -> tuple[Any, Any, Any]:
    """Return a function that builds the model, the spec of a batch, and a batch."""
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
    recipe = recipe_of(cell)
    batch = next(iter(batches(cell, data, recipe, 0, warm_up=1)))
    return recipe.build, batch_spec(cell, data, recipe), batch


def _bytes(variables: Any) -> int:  # noqa: ANN401
    return sum(int(np.prod(one.shape)) * one.value.dtype.size for one in variables)

"""Measure the gradient noise scale of a model along a short training on real examples.

Imports TensorFlow. One process on all cores: nothing is timed.
"""

import itertools
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from nodewise import datasets
from nodewise.cells import Cell
from nodewise.clusters import machine
from nodewise.datasets import Dataset
from nodewise.errors import UserError
from nodewise.files import check_writable, write_text
from nodewise.inputs import check_inputs
from nodewise.measure.provenance import command, data_source, provenance
from nodewise.noise_scale import NoiseScale, Point, group_squares, noise_scale_json
from nodewise.recipes import Recipe, recipe_of
from nodewise.strategies.base import Job, Replica
from nodewise.weights import Pretrained, read_weights

STEPS = (0, 50, 200)
"""Steps of training after which it is measured."""
SMALL_BATCH, BIG_BATCH, GROUPS = 32, 512, 4

Batch = tuple[tf.Tensor, tf.Tensor]


def measure_noise_scale(
    cell: Cell,
    manifest: Path,
    weights: Path | None,
    *,
    output: Path,
    config: Path,
    progress: Callable[[float], None],
    on_wait: Callable[[], None],
) -> NoiseScale:
    """Train the model of `cell` for some steps, measure its gradients, write the result.

    The model trains on one node with batches of 32, whatever the cell does. No cell is measured on
    this machine meanwhile; `on_wait` is called if one is now.

    Args:
        cell: names model, dataset and seed.
        manifest: of the prepared dataset.
        weights: manifest of pretrained weights, if the model starts from such.
        output: the file to write.
        config: the study that declares the cell.
        progress: is told the share that is done.
        on_wait: see above.

    Raises:
        UserError: a manifest cannot be read or is not permitted, examples are too few, or training
            diverged.
        OSError: the result cannot be written.
    """
    check_writable(output)
    data = datasets.load(manifest)
    pretrained = read_weights(weights) if weights else None
    source = data.manifest
    check_inputs(cell, source, pretrained, config)
    if source.train_examples < BIG_BATCH:
        raise UserError(
            f"{source.dataset}: has {source.train_examples} examples; measuring the noise scale "
            f"takes {BIG_BATCH}"
        )
    made = provenance(
        config=config,
        lock=Path("requirements.lock"),
        command=command("snakemake", "--cores", "all", "--force", output, "--configfile", config),
    )
    with machine.to_itself(on_wait):
        started = datetime.now(UTC)
        points = list(_points(cell, data, pretrained, progress))
    result = NoiseScale(
        model=cell.model,
        started_at=started,
        finished_at=datetime.now(UTC),
        data=data_source(source),
        weights=pretrained.source if pretrained else None,
        provenance=made,
        seed=cell.seed,
        small_batch=SMALL_BATCH,
        big_batch=BIG_BATCH,
        points=points,
    )
    write_text(output, noise_scale_json(result))
    return result


def _points(
    cell: Cell, data: Dataset, pretrained: Pretrained | None, progress: Callable[[float], None]
) -> Iterator[Point]:
    """Yield what was measured after each number of steps."""
    recipe = recipe_of(cell, data)
    replica = Replica(_job(cell, recipe, pretrained))
    stream = _batches(data, recipe, cell.seed)
    batches = BIG_BATCH // SMALL_BATCH
    whole = STEPS[-1] + len(STEPS) * GROUPS * batches
    trained = 0
    for number, step in enumerate(STEPS, 1):
        for x, y in itertools.islice(stream, step - trained):
            replica.step(x, y)
        trained = step
        gradients = (_gradient(replica, x, y, cell.model, step) for x, y in stream)
        small, big = zip(*group_squares(gradients, batches, GROUPS), strict=True)
        yield Point(step=step, small_squares=list(small), big_squares=list(big))
        progress((step + number * GROUPS * batches) / whole)


def _gradient(
    replica: Replica, x: tf.Tensor, y: tf.Tensor, model: str, step: int
) -> NDArray[np.float32]:
    """Return the mean gradient over a batch, (parameters,)."""
    gradient: NDArray[np.float32] = replica.gradient(x, y).numpy()
    if not np.isfinite(gradient).all():
        raise UserError(f"{model}: its gradient is not finite after {step} steps of training")
    return gradient


def _job(cell: Cell, recipe: Recipe, pretrained: Pretrained | None) -> Job:
    return Job(
        rank=0,
        size=1,
        global_batch=SMALL_BATCH,
        seed=cell.seed,
        build=partial(recipe.built, pretrained.file if pretrained else None),
        optimizer=recipe.optimizer,
        loss=recipe.loss,
    )


def _batches(data: Dataset, recipe: Recipe, seed: int) -> Iterator[Batch]:
    """Yield small batches, prepared for the model: all examples in random order, and again."""
    rng = np.random.default_rng(seed)
    each = len(data.y_train) // SMALL_BATCH
    while True:
        order = rng.permutation(len(data.y_train))[: each * SMALL_BATCH]
        for rows in np.sort(order.reshape(each, SMALL_BATCH)):  # in order on the disk
            x = recipe.preprocess(tf.constant(data.x_train[rows]))
            yield recipe.augment(x), tf.constant(data.y_train[rows])

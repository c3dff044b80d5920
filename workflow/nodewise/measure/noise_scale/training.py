"""The worker of a noise scale measurement: train a model and measure its gradients.

Imports TensorFlow.
"""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from nodewise.cluster.channel import Channel
from nodewise.core.cell import Cell
from nodewise.core.errors import RefusedError
from nodewise.data import Dataset, load
from nodewise.measure.noise_scale import BIG_BATCH, GROUPS, SMALL_BATCH, STEPS
from nodewise.models.training import Recipe, recipe_of
from nodewise.results.noise_scale import Point, group_squares
from nodewise.strategies.api import Job, flat
from nodewise.strategies.replica import Replica

Batch = tuple[tf.Tensor, tf.Tensor]


def measure_points(
    channel: Channel, cell: Cell, manifest: Path, weights: Path | None
) -> dict[str, Any]:
    """Return the measurements after each number of steps; send the launcher the share done."""
    points = _points(cell, load(manifest), weights, channel)
    return {"points": [point.model_dump(mode="json") for point in points]}


def _points(cell: Cell, data: Dataset, weights: Path | None, channel: Channel) -> Iterator[Point]:
    """Yield the measurement after each number of steps."""
    recipe = recipe_of(cell, data)
    replica = Replica(_job(cell, recipe, weights))
    mean_gradient = tf.function(partial(_mean_gradient, replica.model), autograph=False)
    stream = _batches(data, recipe, cell.seed)
    batches = BIG_BATCH // SMALL_BATCH
    whole = STEPS[-1] + len(STEPS) * GROUPS * batches
    trained = 0
    for number, step in enumerate(STEPS, 1):
        for batch in itertools.islice(stream, step - trained):
            replica.step(batch)
        trained = step
        gradients = (_gradient(mean_gradient, batch, cell.model, step) for batch in stream)
        small, big = zip(*group_squares(gradients, batches, GROUPS), strict=True)
        yield Point(step=step, small_squares=list(small), big_squares=list(big))
        channel.send({"progress": (step + number * GROUPS * batches) / whole})


def _mean_gradient(model: keras.Model, batch: Batch) -> tf.Tensor:
    """Return the mean gradient over a batch, (parameters,)."""
    x, y = batch
    with tf.GradientTape() as tape:
        loss = model.compute_loss(x, y, model(x, training=True), training=True)
    found = tape.gradient(loss, model.trainable_variables)
    return flat([tf.convert_to_tensor(gradient) for gradient in found])


def _gradient(
    mean_gradient: Callable[[Batch], tf.Tensor], batch: Batch, model: str, step: int
) -> NDArray[np.float32]:
    gradient: NDArray[np.float32] = mean_gradient(batch).numpy()
    if not np.isfinite(gradient).all():
        raise RefusedError(f"{model}: its gradient is not finite after {step} steps of training")
    return gradient


def _job(cell: Cell, recipe: Recipe, weights: Path | None) -> Job:
    return Job(
        rank=0,
        size=1,
        global_batch=SMALL_BATCH,
        seed=cell.seed,
        build=partial(recipe.built, weights),
    )


def _batches(data: Dataset, recipe: Recipe, seed: int) -> Iterator[Batch]:
    """Yield small preprocessed batches: all examples in random order, again and again."""
    rng = np.random.default_rng(seed)
    each = len(data.y_train) // SMALL_BATCH
    while True:
        order = rng.permutation(len(data.y_train))[: each * SMALL_BATCH]
        for rows in np.sort(order.reshape(each, SMALL_BATCH)):  # sorted for faster disk access
            x = recipe.preprocess(tf.constant(data.x_train[rows]))
            yield recipe.augment(x), tf.constant(data.y_train[rows])

"""Measure the gradient noise scale of a model during a short training on real examples.

Imports TensorFlow. The training runs in this process and uses all cores, because nothing is timed.
"""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from nodewise.cluster.guard import end_with_starter
from nodewise.cluster.lock import exclusive_machine
from nodewise.cluster.worker import reason_of
from nodewise.core.cell import Cell
from nodewise.core.errors import RefusedError, UserError
from nodewise.core.files import check_writable, write_text
from nodewise.core.progress import progress
from nodewise.core.schema import json_text
from nodewise.data import Dataset, load
from nodewise.measure.inputs import checked_inputs, data_manifest
from nodewise.measure.period import Period
from nodewise.measure.provenance import command, data_source, provenance
from nodewise.models.training import Recipe, recipe_of
from nodewise.results.noise_scale import NoiseScale, Point, group_squares
from nodewise.strategies.api import Job, flat
from nodewise.strategies.replica import Replica

STEPS = (0, 50, 200)
"""The numbers of training steps after which the noise scale is measured."""
SMALL_BATCH, BIG_BATCH, GROUPS = 32, 512, 4

Batch = tuple[tf.Tensor, tf.Tensor]


def measure_noise_scale(cell: Cell, *, output: Path, config: Path) -> NoiseScale:
    """Train the model of `cell` for some steps, measure its gradients and write the result.

    The model trains on one node with batches of 32, whatever the cell's settings are. No cell is
    measured on this machine at the same time.

    Args:
        cell: names the model, the dataset and the seed.
        output: the file to write.
        config: the study that declares the cell.

    Raises:
        UserError: a manifest cannot be read or is not permitted, there are too few examples, or
            training failed or diverged.
        OSError: the result cannot be written.
    """
    check_writable(output)
    source, pretrained = checked_inputs(cell, config)
    if source.train_examples < BIG_BATCH:
        raise UserError(
            f"{source.dataset}: has {source.train_examples} examples; measuring the noise scale "
            f"takes {BIG_BATCH}"
        )
    made = provenance(
        config=config,
        command=command("snakemake", "--cores", "all", "--force", output, "--configfile", config),
    )
    with exclusive_machine():
        period = Period()
        try:
            data = load(data_manifest(cell))
            with progress(f"{cell.model}: noise scale") as show:
                points = [*_points(cell, data, pretrained.file if pretrained else None, show)]
        except (UserError, OSError):
            raise
        except Exception as error:  # of the model's code, called by TensorFlow and Keras
            raise UserError(f"{cell.model}: {reason_of(error)}") from error
    result = NoiseScale(
        model=cell.model,
        started_at=period.started_at,
        finished_at=period.finished_at(),
        data=data_source(source),
        weights=pretrained.source if pretrained else None,
        provenance=made,
        seed=cell.seed,
        small_batch=SMALL_BATCH,
        big_batch=BIG_BATCH,
        points=points,
    )
    write_text(output, json_text(result))
    return result


def _points(
    cell: Cell, data: Dataset, weights: Path | None, show: Callable[[float], None]
) -> Iterator[Point]:
    """Yield the measurement after each number of steps."""
    recipe = recipe_of(cell)
    replica = Replica(Job(0, 1, SMALL_BATCH, cell.seed, partial(recipe.built, weights)))
    mean_gradient = tf.function(partial(_mean_gradient, replica.model), autograph=False)
    stream = _batches(data, recipe, cell.seed)
    batches = BIG_BATCH // SMALL_BATCH
    whole = STEPS[-1] + len(STEPS) * GROUPS * batches
    end_with_starter()
    trained = 0
    for number, step in enumerate(STEPS, 1):
        for batch in itertools.islice(stream, step - trained):
            replica.step(batch)
        trained = step
        gradients = (mean_gradient(batch).numpy() for batch in stream)
        small, big = zip(*group_squares(gradients, batches, GROUPS), strict=True)
        if not np.isfinite(small).all():
            raise RefusedError(f"{cell.model}: its gradient is not finite after {step} steps")
        yield Point(step=step, small_squares=list(small), big_squares=list(big))
        show((step + number * GROUPS * batches) / whole)


def _mean_gradient(model: keras.Model, batch: Batch) -> tf.Tensor:
    """Return the mean gradient over a batch, (parameters,)."""
    x, y = batch
    with tf.GradientTape() as tape:
        loss = model.compute_loss(x, y, model(x, training=True), training=True)
    gradients = tape.gradient(loss, model.trainable_variables)
    return flat([tf.convert_to_tensor(gradient) for gradient in gradients])


def _batches(data: Dataset, recipe: Recipe, seed: int) -> Iterator[Batch]:
    """Yield small preprocessed batches: all examples in random order, again and again."""
    rng = np.random.default_rng(seed)
    each = len(data.train[1]) // SMALL_BATCH
    while True:
        order = rng.permutation(len(data.train[1]))[: each * SMALL_BATCH]
        for rows in np.sort(order.reshape(each, SMALL_BATCH)):  # sorted for faster disk access
            x = recipe.preprocess(tf.constant(data.train[0][rows]))
            yield recipe.augment(x), tf.constant(data.train[1][rows])

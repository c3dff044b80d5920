"""The worker of a cell, for every strategy: warm-up, timed training, evaluation and split steps.

Imports TensorFlow. All of this code runs in worker processes.
"""

import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from nodewise.cluster.channel import Channel, Message
from nodewise.core.cell import Cell
from nodewise.core.errors import RefusedError
from nodewise.data import Dataset, load
from nodewise.data.pipeline import (
    Batch,
    batch_spec,
    batches,
    evaluation_batches,
    rows_read,
    steps_per_epoch,
)
from nodewise.measure import data_service
from nodewise.measure.callbacks import Callbacks, Scores
from nodewise.measure.node import serve_in_node, start_in_node
from nodewise.measure.stopwatch import Stopwatch
from nodewise.measure.task import Task
from nodewise.models import fit_options
from nodewise.models.training import Recipe, recipe_of
from nodewise.strategies import STRATEGIES
from nodewise.strategies.api import Job, NotTimedError, Strategy, stateful

EVALUATION_BATCH = 256
IDLE_BARRIERS = 20
_FIRST_STEPS = 2  # enough to see whether replicas stay equal


def train_cell(task: Task, rank: int, channel: Channel) -> dict[str, Any]:
    """Train a cell as worker `rank`; return this worker's part of the measurement.

    Meets the other workers when it is in its node ("placed"), before a block of timed steps
    ("warm") and after it ("timed"). The launcher decides how often the block is repeated.

    Sends `{"event": "ready"}` when the replica is built, `{"replica": digest of its weights}` after
    two steps, and `{"event": "first_step"}` when the first timed step is done. Rank 0 also sends
    `{"progress": share done}` about twice a second.
    """
    cell, cluster = task.cell, task.cluster
    # the devices of one process may be several GPUs
    start_in_node(cluster, rank, channel, cell.workers, any_gpu=cell.one_process)
    data = load(task.manifest)
    recipe = recipe_of(cell)
    job = _job(task, data, recipe, rank)
    steps = job.steps_per_epoch
    strategy: Strategy = STRATEGIES[cell.strategy].worker().Strategy(job)
    channel.send({"event": "ready", "at": time.monotonic()})

    service = data_service.address(cell, cluster)
    send = channel.send if rank == 0 else lambda message: None
    callbacks = _callbacks(cell, strategy, recipe, data, channel=channel, rank=rank)
    initial = strategy.state()
    warm_up = cell.extent.warmup_steps
    stream_after = partial(batches, cell, data, recipe, rank, service=service)
    stream = stream_after(warm_up=_FIRST_STEPS + warm_up)
    for _ in strategy.train(stream, _FIRST_STEPS):  # trace, allocate and connect, at full speed
        pass
    strategy.barrier()
    if strategy.replicas_agree:
        channel.send({"replica": strategy.weights_sha256()})
    cluster.limit_link(rank)
    while True:
        channel.meet("warm")
        for _ in strategy.train(stream, warm_up):
            pass
        strategy.restore(initial)
        strategy.observations()  # discard those of untimed steps
        result = _block(cell, strategy, stream, steps, send, callbacks=callbacks)
        if not channel.meet("timed"):
            break
        stream = stream_after(warm_up=warm_up)
    strategy.agree()
    optimizer = getattr(strategy.model, "optimizer", None)  # a stage of a model has none
    if optimizer is not None and optimizer.built:  # `fit` does this at the end, too
        optimizer.finalize_variable_values(strategy.model.trainable_variables)
    return result | {
        "weights_sha256": strategy.weights_sha256(),
        "rank": rank,
        "device": strategy.device(),
        "shard_examples": len(rows_read(cell, data.train_examples, rank)),
        "steps_per_epoch": steps,
        "trainable_parameters": _parameters(strategy.model.trainable_weights),
        "total_parameters": _parameters(strategy.model.weights),  # works even if never called
        "test": _evaluate(strategy, recipe, data, cell.workers, rank)
        if cell.extent.epochs and data.test is not None
        else None,
    }


def _parameters(weights: Iterable[keras.Variable]) -> int:
    return sum(math.prod(weight.shape) for weight in weights)


def serve_parameters(task: Task, rank: int, channel: Channel) -> dict[str, float]:
    """Hold parameters as node `rank`; see `serve_in_node`."""

    def start() -> object:
        job = _job(task, load(task.manifest), recipe_of(task.cell), rank)
        return STRATEGIES[task.cell.strategy].worker().Server(job)

    return serve_in_node(task, rank, channel, start)


def check_model(task: Task) -> None:
    """Check that the cell's strategy can split the model; raise RefusedError if not."""
    job = _job(task, load(task.manifest), recipe_of(task.cell), 0)
    STRATEGIES[task.cell.strategy].worker().check(job)


def _job(task: Task, data: Dataset, recipe: Recipe, rank: int) -> Job:
    """Return the job of a worker or server."""
    cell = task.cell
    return Job(
        rank=rank,
        size=cell.nodes,
        global_batch=cell.global_batch,
        seed=cell.seed,
        build=partial(recipe.built, task.weights),
        options=STRATEGIES[cell.strategy].options.model_validate(cell.options),
        addresses=tuple(task.cluster.addresses()[: cell.workers + cell.servers]),
        steps_per_epoch=steps_per_epoch(cell, data.train_examples),
        batch=batch_spec(cell, data, recipe),
        token=task.token,
    )


def _block(
    cell: Cell,
    strategy: Strategy,
    stream: Iterator[Batch],
    steps_per_epoch: int,
    send: Callable[[Message], None],
    *,
    callbacks: Callbacks | None,
) -> dict[str, Any]:
    """Train the timed steps, then the split steps. The callbacks are not timed."""
    count, steps = cell.extent.epochs or 1, cell.extent.steps or steps_per_epoch
    stopwatch = Stopwatch(strategy, send, count * steps)
    if callbacks:
        callbacks.begin()
    strategy.model.reset_metrics()  # untimed: slow if variables are mirrored
    epochs: list[dict[str, Any]] = []
    stopwatch.start()
    for number in range(count):
        if number > 0:
            strategy.model.reset_metrics()
        epochs.append(stopwatch.train(stream, steps))
        if callbacks and cell.extent.epochs:
            with stopwatch.pause():
                ends = callbacks.end_epoch(number, epochs[-1]["logs"])
            if ends:
                break
    stopwatch.stop()
    return stopwatch.result() | {
        "epochs": epochs,
        "observed": strategy.observations(),
        "split": _split(strategy, stream, cell.extent.split_steps),
    }


def _callbacks(
    cell: Cell, strategy: Strategy, recipe: Recipe, data: Dataset, *, channel: Channel, rank: int
) -> Callbacks | None:
    """Return the callbacks of the worker's model; None if it has none."""
    if not fit_options.of(strategy.model).callbacks:
        return None
    steps = steps_per_epoch(cell, data.train_examples)
    if (cell.extent.steps or 0) > steps:
        raise RefusedError(
            f"callbacks act between epochs, of {steps} steps here; measure fewer steps, or epochs"
        )
    validate = partial(_validate, strategy, recipe, data, cell.workers, rank)
    return Callbacks(
        strategy.model,
        channel,
        rank=rank,
        workers=cell.workers,
        epochs=cell.extent.epochs or 1,
        steps=steps,
        validate=validate if data.test is not None else None,
    )


def _validate(strategy: Strategy, recipe: Recipe, data: Dataset, workers: int, rank: int) -> Scores:
    """Evaluate the worker's part of the test examples, then restore the state of the training."""
    state = strategy.state()
    strategy.agree()
    tested = _evaluate(strategy, recipe, data, workers, rank)
    strategy.restore(state)
    strategy.model.reset_metrics()
    return tested["logs"], tested["examples"]


def _evaluate(
    strategy: Strategy, recipe: Recipe, data: Dataset, workers: int, rank: int
) -> dict[str, Any]:
    """Evaluate the worker's part of the test examples. The parts of all workers are disjoint."""
    rows = np.array_split(np.arange(data.test_examples), workers)[rank]
    size = EVALUATION_BATCH
    if layers := stateful(strategy.model):  # they take whole batches of one size only
        size = tf.nest.flatten(layers[0].states)[0].shape[0]
        rows = rows[: len(rows) // size * size]
    batches = evaluation_batches(data, recipe, rows, size)
    logs = strategy.evaluate(batches) if len(rows) else {}
    return {"examples": len(rows), "logs": logs}


def _split(strategy: Strategy, stream: Iterator[Batch], steps: int) -> dict[str, Any] | None:
    """Time the parts of `steps` steps, after one untimed step that traces them.

    Afterwards the trained state is restored, so these steps do not change the result. Returns None
    if the parts of the model's step cannot be timed.
    """
    if steps == 0:
        return None
    trained = strategy.state()
    try:
        strategy.split_step(next(stream))
    except NotTimedError:
        return None
    idle = []
    for _ in range(IDLE_BARRIERS):
        before = time.perf_counter()
        strategy.barrier()
        idle.append(time.perf_counter() - before)
    times, step_us = [], []
    for batch in itertools.islice(stream, steps):
        before = time.perf_counter()
        times.append(strategy.split_step(batch))
        step_us.append(round((time.perf_counter() - before) * 1e6))
    strategy.restore(trained)
    split: dict[str, Any] = {
        f"{part}_us": [round(getattr(step, part) * 1e6) for step in times]
        for part in ("compute", "wait", "communicate", "apply")
    }
    idle_us = round(statistics.median(idle) * 1e6)
    return split | {"step_us": step_us, "idle_barrier_us": idle_us}

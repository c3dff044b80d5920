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
from numpy.typing import NDArray

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
from nodewise.measure import data_service, energy
from nodewise.measure.callbacks import Callbacks, Scores
from nodewise.measure.node import device, idle_through_blocks, start_in_node
from nodewise.measure.task import Task
from nodewise.measure.traffic import traffic
from nodewise.models import fit_options
from nodewise.models.training import Recipe, recipe_of
from nodewise.strategies import STRATEGIES
from nodewise.strategies.api import PATIENCE_S, Job, NotTimedError, Strategy, numbers, plain

EVALUATION_BATCH = 256
IDLE_BARRIERS = 20
_FIRST_STEPS = 2  # enough to see whether replicas stay equal
_LEAST_STEPS = _FIRST_STEPS + 1 + 2  # of any cell: first, warm-up and timed steps
_PROGRESS_S = 0.5
_METERS_S = 20.0


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
    recipe = recipe_of(cell, data)
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
        "device": device(),
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


def serve_parameters(task: Task, rank: int, channel: Channel) -> dict[str, Any]:
    """Hold parameters as node `rank`, until the launcher ends this process.

    Meets the other processes like `train_cell`, and also sends `{"event": "ready"}`.

    Returns:
        The CPU seconds of this process during the last block, from "warm" to "timed".
    """
    cell, cluster = task.cell, task.cluster
    start_in_node(cluster, rank, channel, cell.workers)
    data = load(task.manifest)
    job = _job(task, data, recipe_of(cell, data), rank)
    STRATEGIES[cell.strategy].worker().Server(job)
    channel.send({"event": "ready", "at": time.monotonic()})
    cluster.limit_link(rank)
    return {"cpu_s": idle_through_blocks(channel)}


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
        # A dead peer is noticed by its broken connection. In a cell that ends in time, no step
        # takes longer than this.
        patience_s=max(PATIENCE_S, cell.time_limit_s / _LEAST_STEPS),
        token=task.token,
    )


class Clock:
    """Times consecutive steps and reports the progress of the training."""

    def __init__(self, send: Callable[[Message], None], expected_steps: int) -> None:
        self.step_us: list[int] = []
        self.input_us: list[int] = []
        self._send = send
        self._expected = expected_steps
        self._meters = energy.Meters()
        self._progress_at = self._metered_at = time.perf_counter()

    def joules(self) -> float | None:
        """Return the joules that the machine has used since this was created; None if unmetered."""
        return self._meters.joules()

    def train(self, strategy: Strategy, stream: Iterator[Batch], steps: int) -> dict[str, Any]:
        """Train `steps` steps; return their number, their total seconds and the last logs."""
        logs: dict[str, float] = {}
        started = time.perf_counter()
        for done in strategy.train(stream, steps):
            now = time.perf_counter()
            if not self.step_us:
                self._send({"event": "first_step", "at": time.monotonic() - sum(done.step_s[1:])})
            logs = done.logs
            self.step_us += [round(seconds * 1e6) for seconds in done.step_s]
            self.input_us += [round(seconds * 1e6) for seconds in done.input_s]
            if now - self._progress_at > _PROGRESS_S:
                self._progress_at = now
                self._send({"progress": len(self.step_us) / self._expected})
            if now - self._metered_at > _METERS_S:
                self._metered_at = now
                self.joules()  # often enough that no meter wraps around twice between readings
        elapsed = time.perf_counter() - started
        return {"steps": steps, "seconds": elapsed, "logs": logs}


def _timed_steps(cell: Cell, steps_per_epoch: int) -> int:
    return cell.extent.steps or (cell.extent.epochs or 0) * steps_per_epoch


def _block(
    cell: Cell,
    strategy: Strategy,
    stream: Iterator[Batch],
    steps_per_epoch: int,
    send: Callable[[Message], None],
    *,
    callbacks: Callbacks | None = None,
) -> dict[str, Any]:
    """Train the timed steps, then the split steps, whose parts are timed separately."""
    result = _timed(cell, strategy, stream, steps_per_epoch, send, callbacks=callbacks)
    result["observed"] = strategy.observations()
    result["split"] = _split(strategy, stream, cell.extent.split_steps)
    return result


def _timed(
    cell: Cell,
    strategy: Strategy,
    stream: Iterator[Batch],
    steps_per_epoch: int,
    send: Callable[[Message], None],
    *,
    callbacks: Callbacks | None = None,
) -> dict[str, Any]:
    """Train the timed steps. Time that callbacks take before and between epochs is not counted."""
    if callbacks:
        callbacks.begin()
    strategy.model.reset_metrics()  # untimed: slow if variables are mirrored
    before = _bytes_on_wire(strategy)
    clock = Clock(send, _timed_steps(cell, steps_per_epoch))
    began = _clocks(clock)
    epochs: list[dict[str, Any]] = []
    for number in range(cell.extent.epochs or 1):
        steps = cell.extent.steps or steps_per_epoch
        if number > 0:
            strategy.model.reset_metrics()
        epochs.append(clock.train(strategy, stream, steps))
        if callbacks and number + 1 < (cell.extent.epochs or 1):  # not counted by the clocks
            ended, seen = _clocks(clock), _bytes_on_wire(strategy)
            callbacks.between(number, epochs[-1]["logs"])
            before += _bytes_on_wire(strategy) - seen
            began += _clocks(clock) - ended
    elapsed, spent, energy_j = _clocks(clock) - began
    after = _bytes_on_wire(strategy) - before
    if callbacks and cell.extent.epochs:
        callbacks.end(cell.extent.epochs - 1, epochs[-1]["logs"])
    sent, received, retransmitted = after.tolist()
    return {
        "epochs": epochs,
        "step_us": clock.step_us,
        "input_us": clock.input_us,
        "elapsed_s": elapsed,
        "cpu_s": spent,
        "energy_j": None if math.isnan(energy_j) else energy_j,
        "bytes_sent": sent,
        "bytes_received": received,
        "bytes_retransmitted": retransmitted,
    }


def _clocks(clock: Clock) -> NDArray[np.float64]:
    """Return the seconds, CPU seconds and joules so far; joules are NaN without a meter."""
    seconds, cpu = time.perf_counter(), time.process_time()
    joules = clock.joules()
    return np.array([seconds, cpu, math.nan if joules is None else joules])


def _bytes_on_wire(strategy: Strategy) -> NDArray[np.int64]:
    """Return the bytes sent, received and retransmitted so far.

    Collective; call it between two steps.
    """
    strategy.barrier()  # a step may return before its last bytes are sent
    seen = traffic()
    strategy.barrier()  # otherwise bytes of a faster worker's next step could be counted
    return np.array([seen.sent, seen.received, seen.retransmitted])


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
    model = strategy.trained()
    model.reset_metrics()
    step = tf.function(
        lambda batch: numbers(model.test_step(batch)), reduce_retracing=True, autograph=False
    )
    rows = np.array_split(np.arange(data.test_examples), workers)[rank]
    logs: dict[str, float] = {}
    for batch in evaluation_batches(data, recipe, rows, EVALUATION_BATCH):
        logs = plain(step(batch))
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

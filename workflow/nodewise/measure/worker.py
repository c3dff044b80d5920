"""What a worker does: warm-up, timed training, evaluation, split steps; for every strategy.

Imports TensorFlow; everything here runs in the measuring world.
"""

import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from nodewise.cluster.api import Cluster
from nodewise.cluster.channel import Channel, Message
from nodewise.core.cell import Cell
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
from nodewise.measure.node import device, idle_through_blocks, start_in_node
from nodewise.measure.traffic import Traffic, traffic
from nodewise.models.training import Recipe, recipe_of
from nodewise.strategies import STRATEGIES
from nodewise.strategies.api import PATIENCE_S, Job, Strategy, optimizers_of, plain

EVALUATION_BATCH = 256
IDLE_BARRIERS = 20
_FIRST_STEPS = 2  # are enough to see whether replicas stay equal
_LEAST_STEPS = _FIRST_STEPS + 1 + 2  # of any cell: warm-up and timed ones come after the first
_PROGRESS_S = 0.5
_METERS_S = 20.0


def train_cell(
    cell: Cell,
    cluster: Cluster,
    rank: int,
    channel: Channel,
    *,
    manifest: Path,
    weights: Path | None,
) -> dict[str, Any]:
    """Train `cell` as worker `rank`; return this worker's part of the measurement.

    `manifest` is the dataset's, `weights` a file of pretrained weights, None for random ones.

    Meets the other workers in its node ("placed"), before a block of timed steps ("warm") and after
    it ("timed"), as often as the launcher wants the block repeated.
    Sends `{"event": "ready"}` when the replica is built, `{"replica": digest of its weights}` after
    two steps, `{"event": "first_step"}` when the first timed step is done, and `{"progress": …}`
    about twice a second from rank 0, the share that is done.
    """
    # devices of one process may be GPUs, one for each
    start_in_node(cluster, rank, channel, cell.workers, any_gpu=cell.one_process)
    data = load(manifest)
    recipe = recipe_of(cell, data)
    job = _job(cell, cluster, data, recipe, rank, weights=weights)
    steps = job.steps_per_epoch
    strategy: Strategy = STRATEGIES[cell.strategy].worker().Strategy(job)
    channel.send({"event": "ready", "at": time.monotonic()})

    service = data_service.address(cell, cluster)
    tell = channel.send if rank == 0 else lambda message: None
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
        strategy.observations()  # those of steps that are not timed are nobody's
        result = _block(cell, strategy, stream, steps, tell)
        if not channel.meet("timed"):
            break
        stream = stream_after(warm_up=warm_up)
    strategy.agree()
    for optimizer in optimizers_of(strategy.model):  # as `fit` does in the end
        optimizer.finalize_variable_values(strategy.model.trainable_variables)
    return result | {
        "weights_sha256": strategy.weights_sha256(),
        "rank": rank,
        "device": device(),
        "shard_examples": len(rows_read(cell, data.train_examples, rank)),
        "steps_per_epoch": steps,
        "trainable_parameters": sum(
            math.prod(variable.shape) for variable in strategy.model.trainable_variables
        ),
        "total_parameters": strategy.model.count_params(),
        "test": _evaluate(strategy, recipe, data, cell.workers, rank)
        if cell.extent.epochs and data.test is not None
        else None,
    }


def serve_parameters(
    cell: Cell,
    cluster: Cluster,
    rank: int,
    channel: Channel,
    *,
    manifest: Path,
    weights: Path | None,
) -> dict[str, Any]:
    """Hold parameters as node `rank`, until the launcher ends this process.

    Meets the others as `train_cell` does, and sends the same `{"event": "ready"}`.
    Returns the CPU seconds that it spent between those meetings.
    """
    start_in_node(cluster, rank, channel, cell.workers)
    data = load(manifest)
    job = _job(cell, cluster, data, recipe_of(cell, data), rank, weights=weights)
    STRATEGIES[cell.strategy].worker().Server(job)
    channel.send({"event": "ready", "at": time.monotonic()})
    cluster.limit_link(rank)
    return {"cpu_s": idle_through_blocks(channel)}


def _job(
    cell: Cell, cluster: Cluster, data: Dataset, recipe: Recipe, rank: int, *, weights: Path | None
) -> Job:
    """Return the job of a worker or server."""
    return Job(
        rank=rank,
        size=cell.nodes,
        global_batch=cell.global_batch,
        seed=cell.seed,
        build=partial(recipe.built, weights),
        options=STRATEGIES[cell.strategy].options.model_validate(cell.options),
        addresses=tuple(cluster.addresses()[: cell.workers + cell.servers]),
        steps_per_epoch=steps_per_epoch(cell, data.train_examples),
        batch=batch_spec(cell, data, recipe),
        # who is dead is noticed by its connection; no step of a cell that ends in time is longer
        patience_s=max(PATIENCE_S, cell.time_limit_s / _LEAST_STEPS),
    )


class Clock:
    """Times steps one after the other and tells how far the training is."""

    def __init__(self, send: Callable[[Message], None], expected_steps: int) -> None:
        self.step_us: list[int] = []
        self.input_us: list[int] = []
        self._send = send
        self._expected = expected_steps
        self._meters = energy.Meters()
        self._told = self._metered = time.perf_counter()

    def joules(self) -> float | None:
        """Return what the machine has used since this was made; None if it has no meters."""
        return self._meters.joules()

    def train(self, strategy: Strategy, stream: Iterator[Batch], steps: int) -> dict[str, Any]:
        """Run `steps` steps; return their seconds and the logs after the last."""
        logs: dict[str, float] = {}
        strategy.model.reset_metrics()
        started = time.perf_counter()
        for done in strategy.train(stream, steps):
            now = time.perf_counter()
            if not self.step_us:
                self._send({"event": "first_step", "at": time.monotonic() - sum(done.step_s[1:])})
            logs = done.logs
            self.step_us += [round(seconds * 1e6) for seconds in done.step_s]
            self.input_us += [round(seconds * 1e6) for seconds in done.input_s]
            if now - self._told > _PROGRESS_S:
                self._told = now
                self._send({"progress": len(self.step_us) / self._expected})
            if now - self._metered > _METERS_S:
                self._metered = now
                self.joules()  # else a meter may turn over twice
        elapsed = time.perf_counter() - started
        return {"steps": steps, "seconds": elapsed, "logs": logs}


def _timed_steps(cell: Cell, steps_per_epoch: int) -> int:
    return cell.extent.steps or (cell.extent.epochs or 0) * steps_per_epoch


def _block(
    cell: Cell,
    strategy: Strategy,
    stream: Iterator[Batch],
    steps_per_epoch: int,
    tell: Callable[[Message], None],
) -> dict[str, Any]:
    """Train the timed steps, then those whose parts are timed apart."""
    result = _timed(cell, strategy, stream, steps_per_epoch, tell)
    result["observed"] = strategy.observations()
    result["split"] = _split(strategy, stream, cell.extent.split_steps)
    return result


def _timed(
    cell: Cell,
    strategy: Strategy,
    stream: Iterator[Batch],
    steps_per_epoch: int,
    tell: Callable[[Message], None],
) -> dict[str, Any]:
    wire = _wire(strategy)
    clock = Clock(tell, _timed_steps(cell, steps_per_epoch))
    cpu, started = time.process_time(), time.perf_counter()
    if cell.extent.steps:
        epochs = [clock.train(strategy, stream, cell.extent.steps)]
    else:
        epochs = [
            clock.train(strategy, stream, steps_per_epoch) for _ in range(cell.extent.epochs or 0)
        ]
    elapsed, spent = time.perf_counter() - started, time.process_time() - cpu
    energy_j = clock.joules()
    after = _wire(strategy)
    return {
        "epochs": epochs,
        "step_us": clock.step_us,
        "input_us": clock.input_us,
        "elapsed_s": elapsed,
        "cpu_s": spent,
        "energy_j": energy_j,
        "bytes_sent": after.sent - wire.sent,
        "bytes_received": after.received - wire.received,
        "bytes_retransmitted": after.retransmitted - wire.retransmitted,
    }


def _wire(strategy: Strategy) -> Traffic:
    """Return what was on the wire until now, which is between two steps everywhere. Collective."""
    strategy.barrier()  # a step may return before the last of its bytes has left
    seen = traffic()
    strategy.barrier()  # a quick worker's next step may be here before this one has looked
    return seen


def _evaluate(
    strategy: Strategy, recipe: Recipe, data: Dataset, workers: int, rank: int
) -> dict[str, Any]:
    """Score the worker's part of the test examples; the parts together are all of them."""
    model = strategy.trained()
    model.reset_metrics()
    step = tf.function(model.test_step, reduce_retracing=True, autograph=False)
    rows = np.array_split(np.arange(data.test_examples), workers)[rank]
    logs: dict[str, float] = {}
    for batch in evaluation_batches(data, recipe, rows, EVALUATION_BATCH):
        logs = plain(step(batch))
    return {"examples": len(rows), "logs": logs}


def _split(strategy: Strategy, stream: Iterator[Batch], steps: int) -> dict[str, Any] | None:
    """Time the parts of `steps` steps, after one untimed step that traces them.

    What the timed steps trained is put back after that.
    """
    if steps == 0:
        return None
    trained = strategy.state()
    strategy.split_step(next(stream))
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

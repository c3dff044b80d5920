"""What a worker does: warm-up, timed training, evaluation, split steps; for every strategy.

Imports TensorFlow; everything here runs in the measuring world.
"""

import itertools
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from nodewise import datasets, models, strategies
from nodewise.cells import Cell
from nodewise.clusters.base import Cluster
from nodewise.clusters.processes import Channel, Message
from nodewise.measure.traffic import traffic
from nodewise.strategies.base import Job, Strategy, score

Batch = tuple[tf.Tensor, tf.Tensor]

EVALUATION_BATCH = 1000
IDLE_BARRIERS = 20
_PROGRESS_S = 0.5


def train_cell(
    cell: Cell, manifest: Path, cluster: Cluster, rank: int, channel: Channel
) -> dict[str, Any]:
    """Train `cell` as worker `rank`; return this worker's part of the measurement.

    Meets the other workers in its node ("placed"), when its first step is traced ("warm") and when
    nothing more is timed ("timed").
    Sends `{"event": "ready"}` when the replica is built, `{"event": "first_step"}` when the first
    timed step is done, and `{"progress": share}` about twice a second from rank 0.
    """
    join(cluster, rank, channel)
    data = datasets.load(manifest)
    shard = datasets.shard(len(data.y_train), cell.nodes, rank, cell.seed)
    steps_per_epoch = len(data.y_train) // cell.global_batch
    if steps_per_epoch == 0:
        raise ValueError(
            f"a global batch of {cell.global_batch} is larger than the {len(data.y_train)} examples"
        )
    module = models.load(cell.model)
    job = Job(rank, cell.nodes, cell.global_batch, cell.seed, module.build, module.optimizer)
    strategy: Strategy = strategies.load(cell.strategy).Strategy(job)
    channel.send({"event": "ready", "at": time.time()})

    batches = Batches(data.x_train, data.y_train, shard, cell.batch, cell.seed + rank)
    _warm_up(strategy, batches, cell.extent.warmup_steps, channel)
    clock = Clock(
        channel.send if rank == 0 else lambda message: None, _timed_steps(cell, steps_per_epoch)
    )
    result = _timed(cell, strategy, batches, steps_per_epoch, clock)
    result |= {
        "rank": rank,
        "shard_examples": len(shard),
        "steps_per_epoch": steps_per_epoch,
        "trainable_parameters": strategy.model.count_params()
        - sum(int(np.prod(v.shape)) for v in strategy.model.non_trainable_variables),
        "total_parameters": strategy.model.count_params(),
        "weights_sha256": strategy.weights_sha256(),
        "split": _split(strategy, batches, cell.extent.split_steps),
    }
    channel.meet("timed")
    result["test"] = _evaluate(strategy, data.x_test, data.y_test, cell.nodes, rank)
    return result


class Batches:
    """A worker's batches: its shard, reshuffled every epoch, in steps of `batch` examples."""

    def __init__(
        self, x: np.ndarray, y: np.ndarray, shard: np.ndarray, batch: int, seed: int
    ) -> None:
        self._x, self._y, self._shard, self._batch, self._seed = x, y, shard, batch, seed

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Yield the whole batches of one epoch; fewer examples than a batch are left over."""
        order = np.random.default_rng([self._seed, epoch]).permutation(self._shard)
        for start in range(0, len(order) - self._batch + 1, self._batch):
            rows = order[start : start + self._batch]
            yield tf.constant(self._x[rows]), tf.constant(self._y[rows])

    def endless(self) -> Iterator[Batch]:
        """Yield the batches of epoch 0, 1, 2 and so on."""
        return itertools.chain.from_iterable(self.epoch(epoch) for epoch in itertools.count())


class Clock:
    """Times steps one after the other and tells how far the training is."""

    def __init__(self, send: Callable[[Message], None], expected_steps: int) -> None:
        self.step_us: list[int] = []
        self._send = send
        self._expected = expected_steps
        self._told = time.perf_counter()

    def train(self, strategy: Strategy, batches: Iterator[Batch]) -> dict[str, Any]:
        """Run one step per batch; return steps, seconds and the summed scores of this worker."""
        scores = np.zeros(2)
        started = before = time.perf_counter()
        steps = 0
        for x, y in batches:
            scores += strategy.step(x, y).numpy()
            now = time.perf_counter()
            self.step_us.append(round((now - before) * 1e6))
            before = now
            steps += 1
            if now - self._told > _PROGRESS_S:
                self._told = now
                self._send({"progress": len(self.step_us) / self._expected})
            if len(self.step_us) == 1:
                self._send({"event": "first_step", "at": time.time()})
        loss_sum, right = scores.tolist()
        return {"steps": steps, "seconds": before - started, "loss_sum": loss_sum, "right": right}


def join(cluster: Cluster, rank: int, channel: Channel) -> None:
    """Move this worker into its node and tell TensorFlow where the others are."""
    cluster.enter_node(rank)
    channel.meet("placed")
    cluster.join(rank)
    task = {"type": "worker", "index": rank}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": cluster.addresses()}, "task": task})
    compute_with_one_thread()


def compute_with_one_thread() -> None:
    """Make this node the same machine for every number of nodes; before TensorFlow's first step."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)


def _timed_steps(cell: Cell, steps_per_epoch: int) -> int:
    return cell.extent.steps or (cell.extent.epochs or 0) * steps_per_epoch


def _warm_up(strategy: Strategy, batches: Batches, steps: int, channel: Channel) -> None:
    """Trace, allocate and connect in one step, then `steps` more at the cluster's own speed.

    The initial weights are put back after that.
    """
    initial = strategy.state()
    source = batches.endless()
    strategy.step(*next(source))
    channel.meet("warm")
    for x, y in itertools.islice(source, steps):
        strategy.step(x, y)
    strategy.restore(initial)


def _timed(
    cell: Cell, strategy: Strategy, batches: Batches, steps_per_epoch: int, clock: Clock
) -> dict[str, Any]:
    strategy.barrier()
    cpu, wire, started = time.process_time(), traffic(), time.perf_counter()
    if cell.extent.steps:
        epochs = [clock.train(strategy, itertools.islice(batches.endless(), cell.extent.steps))]
    else:
        epochs = [
            clock.train(strategy, itertools.islice(batches.epoch(epoch), steps_per_epoch))
            for epoch in range(cell.extent.epochs or 0)
        ]
    elapsed, spent = time.perf_counter() - started, time.process_time() - cpu
    strategy.barrier()  # a step may return before the last of its bytes has left
    after = traffic()
    return {
        "epochs": epochs,
        "step_us": clock.step_us,
        "elapsed_s": elapsed,
        "cpu_s": spent,
        "bytes_sent": after.sent - wire.sent,
        "bytes_received": after.received - wire.received,
        "bytes_retransmitted": after.retransmitted - wire.retransmitted,
    }


def _evaluate(
    strategy: Strategy, x: np.ndarray, y: np.ndarray, nodes: int, rank: int
) -> dict[str, float]:
    """Score the worker's part of the test examples; the parts together are all of them."""

    def scores_of(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        logits = strategy.model(x, training=False)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.cast(y, tf.int32), logits)
        return score(tf.reduce_sum(losses), logits, y)

    forward = tf.function(scores_of, reduce_retracing=True)
    rows = np.array_split(np.arange(len(y)), nodes)[rank]
    scores = np.zeros(2)
    for start in range(0, len(rows), EVALUATION_BATCH):
        part = rows[start : start + EVALUATION_BATCH]
        scores += forward(tf.constant(x[part]), tf.constant(y[part])).numpy()
    loss_sum, right = scores.tolist()
    return {"examples": len(rows), "loss_sum": loss_sum, "right": right}


def _split(strategy: Strategy, batches: Batches, steps: int) -> dict[str, Any] | None:
    """Time the parts of `steps` steps, after one untimed step that traces them.

    What the timed steps trained is put back after that.
    """
    if steps == 0:
        return None
    trained = strategy.state()
    source = batches.endless()
    strategy.split_step(*next(source))
    idle = []
    for _ in range(IDLE_BARRIERS):
        before = time.perf_counter()
        strategy.barrier()
        idle.append(time.perf_counter() - before)
    times = [strategy.split_step(x, y) for x, y in itertools.islice(source, steps)]
    strategy.restore(trained)
    split: dict[str, Any] = {
        f"{part}_us": [round(getattr(step, part) * 1e6) for step in times]
        for part in ("compute", "wait", "communicate", "apply")
    }
    return split | {"idle_barrier_us": round(statistics.median(idle) * 1e6)}

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
from typing import Any, Self

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

    Meets the other workers in its node ("placed"), before a block of timed steps ("warm") and after
    it ("timed"), as often as the launcher wants the block repeated.
    Sends `{"event": "ready"}` when the replica is built, `{"event": "first_step"}` when the first
    timed step is done, and `{"progress": share}` about twice a second from rank 0.
    """
    join(cluster, rank, channel)
    data = datasets.load(manifest)
    steps_per_epoch = len(data.y_train) // cell.global_batch
    if steps_per_epoch == 0:
        raise ValueError(
            f"a global batch of {cell.global_batch} is larger than the {len(data.y_train)} examples"
        )
    module = models.load(cell.model)
    job = Job(rank, cell.nodes, cell.global_batch, cell.seed, module.build, module.optimizer)
    strategy: Strategy = strategies.load(cell.strategy).Strategy(job)
    channel.send({"event": "ready", "at": time.time()})

    batches = Batches.of(cell, data.x_train, data.y_train, rank)
    tell = channel.send if rank == 0 else lambda message: None
    initial = strategy.state()
    strategy.step(*next(batches.endless()))  # traces, allocates and connects, at full speed
    strategy.barrier()
    cluster.limit_link(rank)
    again = True
    while again:
        channel.meet("warm")
        for x, y in itertools.islice(batches.endless(), cell.extent.warmup_steps):
            strategy.step(x, y)
        strategy.restore(initial)
        result = _block(cell, strategy, batches, steps_per_epoch, tell)
        again = channel.meet("timed")
    return result | {
        "rank": rank,
        "shard_examples": batches.examples,
        "steps_per_epoch": steps_per_epoch,
        "trainable_parameters": strategy.model.count_params()
        - sum(int(np.prod(v.shape)) for v in strategy.model.non_trainable_variables),
        "total_parameters": strategy.model.count_params(),
        "test": _evaluate(strategy, data.x_test, data.y_test, cell.nodes, rank),
    }


class Batches:
    """A worker's batches: every epoch it reads `rows` in a new order and keeps its part of them.

    It reads `parts` batches of `batch` examples a step and keeps batch number `part`.
    """

    def __init__(
        self,
        x: np.ndarray,
        y: np.ndarray,
        rows: np.ndarray,
        batch: int,
        seed: int,
        *,
        part: int = 0,
        parts: int = 1,
    ) -> None:
        self._x, self._y, self._rows, self._seed = x, y, rows, seed
        self._read = batch * parts
        self._kept = slice(part * batch, (part + 1) * batch)

    @classmethod
    def of(cls, cell: Cell, x: np.ndarray, y: np.ndarray, rank: int) -> Self:
        """Return the batches that worker `rank` of `cell` trains on."""
        if cell.input == "unsharded":
            everything = np.arange(len(y))
            return cls(x, y, everything, cell.batch, cell.seed, part=rank, parts=cell.nodes)
        shard = datasets.shard(len(y), cell.nodes, rank, cell.seed)
        return cls(x, y, shard, cell.batch, cell.seed + rank)

    @property
    def examples(self) -> int:
        """How many examples the worker reads in an epoch."""
        return len(self._rows)

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Yield the whole batches of one epoch; fewer examples than a batch are left over."""
        order = np.random.default_rng([self._seed, epoch]).permutation(self._rows)
        for start in range(0, len(order) - self._read + 1, self._read):
            rows = order[start : start + self._read]
            x, y = self._x[rows], self._y[rows]
            yield tf.constant(x[self._kept]), tf.constant(y[self._kept])

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


def _block(
    cell: Cell,
    strategy: Strategy,
    batches: Batches,
    steps_per_epoch: int,
    tell: Callable[[Message], None],
) -> dict[str, Any]:
    """Train the timed steps, then those whose parts are timed apart."""
    clock = Clock(tell, _timed_steps(cell, steps_per_epoch))
    result = _timed(cell, strategy, batches, steps_per_epoch, clock)
    result["weights_sha256"] = strategy.weights_sha256()
    result["split"] = _split(strategy, batches, cell.extent.split_steps)
    return result


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

    forward = tf.function(scores_of, reduce_retracing=True, autograph=False)
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

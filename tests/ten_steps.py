"""Train ten steps with strategies on n workers, in their split and fused forms.

Every worker takes its `np.array_split` part of the same global batches of 50 examples (with three
workers the parts are 17, 17 and 16), or all of them if the strategy does not split batches. Each
worker saves its weights in OUT/CASE, as split~RANK.npz and fused~RANK.npz, and returns the times at
which it reached and left a barrier.
"""

import time
from pathlib import Path
from typing import Any, NamedTuple

import local_job
from nodewise.cluster.channel import Channel
from nodewise.strategies import STRATEGIES

STEPS = 10
GLOBAL_BATCH = 50
LATE_S = 0.3
CLIPPED_AT = 0.1  # far below the norm of the whole gradient


class Case(NamedTuple):
    """What a job trains, and how; the optimizer is sgd_momentum, adam or sgd_clipped."""

    strategy: str
    options: dict[str, Any]
    nodes: int
    optimizer: str
    initial: str | None = None  # a folder of another case, whose initial weights are taken


def train(
    rank: int, addresses: tuple[str, ...], _: Channel, *, case: Case, out: Path
) -> dict[str, float]:
    import keras
    import numpy as np
    import tensorflow as tf

    from nodewise.models import registry
    from nodewise.strategies.api import Strategy

    random = np.random.default_rng(7)
    x = random.integers(0, 256, (STEPS, GLOBAL_BATCH, 28, 28, 1), dtype=np.uint8)
    y = random.integers(0, 10, (STEPS, GLOBAL_BATCH), dtype=np.uint8)

    def make_optimizer() -> keras.optimizers.Optimizer:
        if case.optimizer == "adam":
            # With the default epsilon, 1e-7, rounding of gradients near zero becomes whole steps.
            return keras.optimizers.Adam(0.001, epsilon=1e-4)
        if case.optimizer == "sgd_clipped":
            return keras.optimizers.SGD(0.1, global_clipnorm=CLIPPED_AT)
        return keras.optimizers.SGD(0.01, momentum=0.9)

    def agree(trained: Strategy) -> None:
        """Make replicas that differ between steps equal; all others must be equal already."""
        if not trained.replicas_agree:
            trained.agree()

    fashion_cnn = registry.load("fashion_cnn")

    def build() -> keras.Model:
        model = fashion_cnn.build()
        model.compile(make_optimizer(), model.loss, metrics=["accuracy"])
        return model

    rows = np.arange(GLOBAL_BATCH)
    if not STRATEGIES[case.strategy].whole_batches:
        rows = np.array_split(rows, case.nodes)[rank]
    spec = tuple(tf.TensorSpec(one[0][rows].shape, one.dtype) for one in (x, y))
    trained = local_job.make_strategy(case, rank, addresses, build, GLOBAL_BATCH, batch=spec)
    if case.initial:
        with np.load(f"{case.initial}/initial.npz") as arrays:
            trained.restore(list(arrays.values()))
    initial = trained.state()
    if rank == 0:
        np.savez(out / "initial.npz", *initial)
    batches = [(tf.constant(a[rows]), tf.constant(b[rows])) for a, b in zip(x, y, strict=True)]
    # The split form trains a copy of the fused form's weights, made at its first step.
    for batch in batches:
        trained.split_step(batch)
    agree(trained)
    np.savez(out / f"split~{rank}.npz", *local_job.split_weights(trained))
    trained.restore(initial)
    for batch in batches:
        trained.step(batch)
    agree(trained)
    np.savez(out / f"fused~{rank}.npz", *trained.weights())
    trained.barrier()
    time.sleep(0 if rank else LATE_S)
    came = time.monotonic()
    trained.barrier()
    return {"came": came, "left": time.monotonic()}

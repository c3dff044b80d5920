"""Train ten steps with strategies on n workers, in their split and fused forms.

`main(out, cases)` trains each case, on nodes of this machine or of another `cluster`. Its optimizer
is sgd_momentum, adam or sgd_clipped. Every worker takes its `np.array_split` part of the same
global batches of 50 examples (with three workers the parts are 17, 17 and 16), or all of them if
the strategy does not split batches. Each worker saves its weights in OUT/CASE, as split~RANK.npz
and fused~RANK.npz, and in barrier~RANK.json the times at which it reached and left a barrier. If a
case fails, OUT/CASE/failure.txt says why.
"""

import json
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from local_job import run_workers
from nodewise.cluster import api, process
from nodewise.cluster.local import Local
from nodewise.core.errors import RefusedError
from nodewise.strategies import STRATEGIES

STEPS = 10
GLOBAL_BATCH = 50
LATE_S = 0.3
CLIPPED_AT = 0.1  # far below the norm of the whole gradient


class Case(NamedTuple):
    """What a job trains, and how."""

    strategy: str
    options: dict[str, Any]
    nodes: int
    optimizer: str


def main(out: Path, cases: dict[str, Case], cluster: api.Cluster | None = None) -> None:
    cluster = cluster or Local(max(case.nodes for case in cases.values()))

    def met(name: str, pids: list[int]) -> None:
        if name == "placed":
            cluster.connect(pids)

    with cluster.open():
        for name, case in cases.items():
            (out / name).mkdir()
            try:
                workers = 1 if STRATEGIES[case.strategy].one_process else case.nodes
                train = partial(train_on, case=case, out=out / name)
                run_workers(cluster, workers, train, out / name, on_meeting=met)
            except (process.WorkerError, RefusedError) as error:
                (out / name / "failure.txt").write_text(str(error))


def train_on(rank: int, addresses: tuple[str, ...], *, case: Case, out: Path) -> None:
    strategy, given, nodes, optimizer = case
    import keras
    import numpy as np
    import tensorflow as tf

    from nodewise.models import registry
    from nodewise.strategies.api import Job, Strategy

    random = np.random.default_rng(7)
    x = random.integers(0, 256, (STEPS, GLOBAL_BATCH, 28, 28, 1), dtype=np.uint8)
    y = random.integers(0, 10, (STEPS, GLOBAL_BATCH), dtype=np.uint8)

    def make_optimizer() -> keras.optimizers.Optimizer:
        if optimizer == "adam":
            # With the default epsilon, 1e-7, rounding of gradients near zero becomes whole steps.
            return keras.optimizers.Adam(0.001, epsilon=1e-4)
        if optimizer == "sgd_clipped":
            return keras.optimizers.SGD(0.1, global_clipnorm=CLIPPED_AT)
        return keras.optimizers.SGD(0.01, momentum=0.9)

    entry = STRATEGIES[strategy]
    options = entry.checked(given, nodes)
    workers = 1 if entry.one_process else nodes

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
    if not entry.whole_batches:
        rows = np.array_split(rows, nodes)[rank]
    job = Job(
        rank,
        nodes,
        GLOBAL_BATCH,
        3,
        build,
        options=options,
        addresses=addresses[:workers],
        batch=tuple(tf.TensorSpec(one[0][rows].shape, one.dtype) for one in (x, y)),
    )
    trained = STRATEGIES[strategy].worker().Strategy(job)
    initial = trained.state()
    batches = [(tf.constant(a[rows]), tf.constant(b[rows])) for a, b in zip(x, y, strict=True)]
    # The split form trains a copy of the fused form's weights, made at its first step.
    for batch in batches:
        trained.split_step(batch)
    agree(trained)
    np.savez(out / f"split~{rank}.npz", *trained.split_weights())
    trained.restore(initial)
    for batch in batches:
        trained.step(batch)
    agree(trained)
    np.savez(out / f"fused~{rank}.npz", *trained.weights())
    trained.barrier()
    time.sleep(0 if rank else LATE_S)
    came = time.monotonic()
    trained.barrier()
    (out / f"barrier~{rank}.json").write_text(json.dumps([came, time.monotonic()]))

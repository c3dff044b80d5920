"""Measure the memory that a worker needs for its examples (target: its shard + 100 MB).

Eight workers should fit into 8 GB. Trains workers of the CIFAR-10 CNN, forked from one process as
in every cell: a few steps on their examples, and for comparison on one batch of zeros. Memory is
the proportional set size, in which a page shared by several processes counts in parts.
"""

import itertools
import os
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1", "OMP_NUM_THREADS": "1"}

import numpy as np
import psutil

from nodewise.cluster import process
from nodewise.cluster.channel import Channel, Message
from nodewise.cluster.kinds.local import Local
from nodewise.core.cell import Cell, Extent

DATASET, MODEL, BATCH = Path("results/datasets/cifar10"), "cifar10_cnn", 64
NODES = (1, 2, 8)
STEPS = 5
MB = 1e6


def main() -> None:
    if not (DATASET / "manifest.json").is_file():
        raise SystemExit("first: nodewise prepare cifar10")
    for nodes in NODES:
        cell = cell_of(nodes)
        with tempfile.TemporaryDirectory() as logs:
            without, having = (
                process.Job(
                    nodes,
                    partial(train, cell=cell, with_data=with_data),
                    logs=Path(logs),
                    time_limit_s=600,
                    preload=["nodewise.measure.worker"],
                ).run()
                for with_data in (False, True)
            )
        shard = max(seen["shard"] * seen["example"] for seen in having)
        more = max(seen["pss"] for seen in having) - min(seen["pss"] for seen in without)
        total = sum(seen["pss"] for seen in having)
        print(
            f"{nodes} workers: shard {shard / MB:5.0f} MB; with it {more / MB:5.0f} MB more "
            f"({(more - shard) / MB:+.0f} MB beside the shard); all workers {total / 1e9:.2f} GB"
        )


def train(rank: int, channel: Channel, *, cell: Cell, with_data: bool) -> Message:
    """Train a few steps on examples or on one batch of zeros; return the memory used."""
    import tensorflow as tf

    from nodewise import data as datasets
    from nodewise.data import pipeline
    from nodewise.measure.node import compute_with
    from nodewise.models import training
    from nodewise.strategies import STRATEGIES
    from nodewise.strategies.api import Job

    compute_with(1)
    data = datasets.load(DATASET / "manifest.json")
    recipe = training.recipe_of(cell)
    job = Job(0, 1, BATCH, 1, recipe.build)
    strategy = STRATEGIES["single"].worker().Strategy(job)
    nothing = tf.zeros([BATCH, *data.train[0].shape[1:]], tf.uint8), tf.zeros([BATCH])
    stream: Iterator[Any] = itertools.repeat(nothing)
    if with_data:
        stream = pipeline.batches(cell, data, recipe, rank, warm_up=1)
    for batch in itertools.islice(stream, STEPS):
        strategy.step(batch)
    channel.meet("trained")  # all workers exist while each measures its memory
    shard = len(pipeline.rows_read(cell, len(data.train[1]), rank))
    seen = {"pss": psutil.Process().memory_full_info().pss, "shard": shard}
    channel.meet("measured")
    return seen | {"example": int(np.prod(data.train[0].shape[1:]))}


def cell_of(nodes: int) -> Cell:
    return Cell(
        study="nodewise",
        experiment="bench",
        model=MODEL,
        dataset="cifar10",
        strategy="single",
        cluster=Local(),
        batch=BATCH,
        nodes=nodes,
        repeat=0,
        extent=Extent(steps=STEPS),
        seed=1,
        time_limit_s=600,
    )


if __name__ == "__main__":
    main()

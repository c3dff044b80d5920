"""Which examples a worker trains on, sharded and unsharded."""

import numpy as np
import pytest

from nodewise.cells import Cell, Extent, Local
from nodewise.train import Batches

EXAMPLES, NODES, BATCH = 26, 3, 4
X, Y = np.arange(EXAMPLES)[:, None], np.arange(EXAMPLES)


def batches(rank, **changes):
    cell = Cell(
        study="ntua",
        experiment="steps",
        model="fashion_mlp",
        dataset="fashion_mnist",
        strategy="multi_worker_mirrored",
        cluster=Local(),
        batch=BATCH,
        nodes=NODES,
        repeat=0,
        extent=Extent(steps=2),
        seed=1,
        time_limit_s=60,
        **changes,
    )
    return Batches.of(cell, X, Y, rank)


def seen(of, epoch):
    return [y.numpy().tolist() for _, y in of.epoch(epoch)]


@pytest.mark.parametrize("how", ["sharded", "unsharded"])
def test_workers_never_train_on_the_same_example_in_one_epoch(how):
    workers = [seen(batches(rank, input=how), 0) for rank in range(NODES)]
    assert {len(steps) for steps in workers} == {EXAMPLES // (NODES * BATCH)}
    trained = [example for steps in workers for step in steps for example in step]
    assert len(trained) == len(set(trained)) == 24


@pytest.mark.parametrize("how", ["sharded", "unsharded"])
def test_the_order_is_new_every_epoch_and_the_same_every_time(how):
    assert seen(batches(0, input=how), 0) == seen(batches(0, input=how), 0)
    assert seen(batches(0, input=how), 0) != seen(batches(0, input=how), 1)


def test_an_unsharded_worker_reads_everything():
    assert batches(1, input="sharded").examples < EXAMPLES
    assert batches(1, input="unsharded").examples == EXAMPLES

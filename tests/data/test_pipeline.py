"""Shards, which examples a worker trains on, and how its pipeline processes them."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

import make_records as make
from nodewise.data import pipeline
from nodewise.data.prepared import Dataset
from nodewise.data.structures import Ragged
from nodewise.models.training import Recipe

EXAMPLES, NODES, BATCH = 26, 3, 4
ROWS = np.arange(EXAMPLES)
STEPS = EXAMPLES // (NODES * BATCH)
X, Y = np.arange(EXAMPLES, dtype=np.uint8)[:, None], np.arange(EXAMPLES, dtype=np.uint8)
DATA = Dataset(None, (X, Y), (X, Y))
PLAIN = Recipe(build=None)


def cell(**changes):
    fields = {"model": "fashion_mlp", "nodes": NODES, "batch": BATCH} | changes
    return make.cell(strategy="multi_worker_mirrored", **fields)


def seen(of, rank, epochs=1, recipe=PLAIN, warm_up=0):
    """Return, for each step of worker `rank`, the list of labels."""
    stream = pipeline.batches(of, DATA, recipe, rank, warm_up=warm_up)
    steps = warm_up + epochs * pipeline.steps_per_epoch(of, EXAMPLES)
    return [y.numpy().tolist() for _, y in itertools.islice(stream, steps)]


@given(st.integers(0, 500), st.integers(1, 40), st.integers(0, 2**31 - 1))
def test_shards_are_disjoint_and_together_everything(examples, workers, seed):
    shards = [pipeline.shard(examples, workers, rank, seed) for rank in range(workers)]
    assert sorted(np.concatenate(shards).tolist()) == list(range(examples))
    sizes = [len(rows) for rows in shards]
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)
    assert all((np.diff(rows) > 0).all() for rows in shards)


def test_a_shard_is_a_random_sample_not_a_slice():
    rows = pipeline.shard(60_000, 3, 0, 1)
    assert abs(rows.mean() - 30_000) < 500
    assert not np.array_equal(rows, pipeline.shard(60_000, 3, 0, 2))


@pytest.mark.parametrize(("workers", "rank"), [(3, 3), (3, -1), (0, 0), (-2, 0)])
def test_a_rank_that_does_not_exist(workers, rank):
    with pytest.raises(ValueError, match="rank"):
        pipeline.shard(10, workers, rank, 0)


@pytest.mark.parametrize("how", ["sharded", "unsharded"])
def test_workers_never_train_on_the_same_example_in_one_epoch(how):
    of = cell(input=how)
    for epoch in range(2):
        steps = [seen(of, rank, epochs=2)[epoch * STEPS :][:STEPS] for rank in range(NODES)]
        trained = [example for worker in steps for step in worker for example in step]
        assert len(trained) == len(set(trained)) == STEPS * NODES * BATCH


@pytest.mark.parametrize("how", ["sharded", "unsharded"])
def test_the_order_is_new_every_epoch_and_the_same_every_time(how):
    once = seen(cell(input=how), 0, epochs=2)
    assert once == seen(cell(input=how), 0, epochs=2)
    assert once[:STEPS] != once[STEPS:]


def test_warm_up_does_not_move_the_epochs():
    assert seen(cell(), 1, warm_up=3)[3:] == seen(cell(), 1)


@given(
    more=st.integers(0, 200),
    nodes=st.integers(1, 5),
    batch=st.integers(1, 9),
    how=st.sampled_from(["sharded", "unsharded"]),
)
def test_every_step_reads_whole_batches_of_the_workers_own_examples(more, nodes, batch, how):
    of, examples = cell(nodes=nodes, batch=batch, input=how), nodes * batch + more
    steps = pipeline.steps_per_epoch(of, examples)
    for rank in range(nodes):
        rows = pipeline.rows_read(of, examples, rank)
        *warm_up, epoch = itertools.islice(pipeline.orders(of, examples, rank, steps + 1), 3)
        assert [len(order) for order in warm_up] == [steps, 1]
        assert epoch.shape == (steps, of.batch if how == "sharded" else of.global_batch)
        assert len(np.unique(rows[epoch])) == epoch.size <= len(rows)


def test_preprocessing_and_augmentation_run_on_what_is_read():
    recipe = Recipe(None, preprocess=lambda x: tf.cast(x, tf.float32) / 2, augment=lambda x: x + 1)
    x, y = next(pipeline.batches(cell(), DATA, recipe, 0, warm_up=0))
    np.testing.assert_array_equal(x.numpy()[:, 0], y.numpy() / 2 + 1)


def test_an_unsharded_worker_prepares_the_whole_global_batch_and_keeps_its_part():
    sizes = []

    def note(x):
        tf.numpy_function(lambda x: sizes.append(len(x)), [x], [])
        return x

    of = cell(input="unsharded")
    recipe = Recipe(None, preprocess=note)
    parts = [next(pipeline.batches(of, DATA, recipe, rank, warm_up=0)) for rank in range(NODES)]
    assert {len(y) for _, y in parts} == {BATCH}
    assert set(sizes) == {NODES * BATCH}
    assert len({int(label) for _, y in parts for label in y}) == NODES * BATCH


def test_whole_batches_are_the_same_on_every_worker_and_are_not_cut():
    of = cell(input="whole")
    recipe = Recipe(None, augment=lambda x: tf.cast(x, tf.float32) + tf.random.uniform([]))
    x = [next(pipeline.batches(of, DATA, recipe, rank, warm_up=0))[0] for rank in range(NODES)]
    assert {len(part) for part in x} == {NODES * BATCH}
    assert all((part.numpy() == x[0].numpy()).all() for part in x)


NAMES = np.array([f"é{n}".encode() for n in ROWS])
INPUTS, TARGETS = {"image": np.stack([ROWS, ROWS], 1) / 2, "name": NAMES}, {"odd": ROWS % 2 == 1}
NESTED = Dataset(None, (INPUTS, (ROWS, TARGETS), ROWS.astype("float32")), None)
RAGGED = Ragged(np.repeat(ROWS, ROWS % 3), (np.cumsum([0, *ROWS % 3]),))
RAGGED_DATA = Dataset(None, (RAGGED, ROWS), (RAGGED, ROWS))


@pytest.mark.parametrize("how", ["sharded", "unsharded", "whole"])
def test_structures_are_cut_in_batches_as_fit_would(how):
    of = cell(input=how)
    recipe = Recipe(None, preprocess=lambda x: x | {"image": x["image"] * 2})
    steps = list(itertools.islice(pipeline.batches(of, NESTED, recipe, 0, warm_up=1), 1 + STEPS))
    for x, (label, other), weight in steps:
        assert (x["name"].dtype, x["image"].dtype) == (tf.string, tf.float64)
        assert (label.dtype, other["odd"].dtype, weight.dtype) == (tf.int64, tf.bool, tf.float32)
        assert len(label) == (BATCH * NODES if how == "whole" else BATCH)
        rows = label.numpy()
        np.testing.assert_array_equal(x["image"].numpy(), np.stack([rows, rows], 1))
        assert [name.decode() for name in x["name"].numpy()] == [f"é{n}" for n in rows]
        np.testing.assert_array_equal(other["odd"].numpy(), rows % 2 == 1)
        np.testing.assert_array_equal(weight.numpy(), rows)


@pytest.mark.parametrize("how", ["sharded", "unsharded"])
def test_ragged_rows_stay_with_their_labels(how):
    stream = pipeline.batches(cell(input=how), RAGGED_DATA, PLAIN, 1, warm_up=0)
    for x, y in itertools.islice(stream, STEPS):
        assert x.to_list() == [[row] * (row % 3) for row in y.numpy().tolist()]
    ((x, _),) = pipeline.evaluation_batches(RAGGED_DATA, PLAIN, ROWS[1:4], 4)
    assert x.to_list() == [[1], [2, 2], []]


@pytest.mark.parametrize("train", [X, (X,), {"a": X}], ids=["x", "(x,)", "dict"])
@pytest.mark.parametrize("how", ["sharded", "unsharded"])
def test_data_without_targets_is_x_as_fit_hands_it_on(train, how):
    recipe = Recipe(None, preprocess=lambda x: x)
    stream = pipeline.batches(cell(input=how), Dataset(None, train, None), recipe, 0, warm_up=0)
    batch = next(stream)
    tf.nest.assert_same_structure(batch, train, check_types=True)
    assert tf.nest.flatten(batch)[0].shape == (BATCH, 1)


@pytest.mark.parametrize("how", ["sharded", "unsharded", "whole"])
@pytest.mark.parametrize("data", [DATA, NESTED, RAGGED_DATA], ids=["plain", "nested", "ragged"])
def test_the_spec_of_a_batch_is_that_of_the_batches(how, data):
    def wider(x):
        return tf.nest.map_structure(lambda array: tf.expand_dims(array, -1), x)

    of, recipe = cell(input=how), Recipe(None, preprocess=wider)
    spec = pipeline.batch_spec(of, data, recipe)
    batch = next(pipeline.batches(of, data, recipe, 0, warm_up=0))
    tf.nest.assert_same_structure(batch, spec, check_types=True)
    for tensor, told in zip(tf.nest.flatten(batch), tf.nest.flatten(spec), strict=True):
        assert tensor.dtype == told.dtype
        assert told.is_compatible_with(tensor)
        assert isinstance(tensor, tf.RaggedTensor) or tensor.shape == told.shape


def test_examples_are_evaluated_in_their_order_without_augmentation():
    data = Dataset(None, None, NESTED.train)
    recipe = Recipe(None, preprocess=lambda x: x["name"], augment=lambda x: 1 / 0)
    parts = list(pipeline.evaluation_batches(data, recipe, ROWS[5:15], 4))
    assert [len(weight) for _, _, weight in parts] == [4, 4, 2]
    names = [name.decode() for x, _, _ in parts for name in x.numpy()]
    assert names == [f"é{n}" for n in range(5, 15)]

"""Nodes that only prepare examples serve the nodes that train."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

import make_records as make
import projects
from nodewise.core.errors import UserError
from nodewise.data import pipeline
from nodewise.data.prepared import Dataset
from nodewise.data.structures import Ragged
from nodewise.models.training import Recipe
from nodewise.results.record import read_record

pytestmark = pytest.mark.slow

EXAMPLES = 2_700  # Blocks have 1000; the last one is incomplete.
service = tf.data.experimental.service


FED = make.cell(input="service", preprocessing_nodes=2, batch=50)


@pytest.fixture
def address():
    dispatcher = service.DispatchServer(service.DispatcherConfig(port=0))
    address = dispatcher.target.split("://")[1]
    workers = [service.WorkerServer(service.WorkerConfig(address)) for _ in range(2)]
    yield dispatcher.target
    del workers, dispatcher


def saved(path, array):
    np.save(path, array, allow_pickle=False)
    return np.lib.format.open_memmap(path, mode="r")


def test_every_example_arrives_with_its_label_prepared(tmp_path, address):
    rows = np.arange(EXAMPLES)
    x = saved(tmp_path / "x.npy", np.stack([rows, 2 * rows], 1).astype(np.uint16))
    y = saved(tmp_path / "y.npy", (rows % 7).astype(np.uint8))
    recipe = Recipe(None, preprocess=lambda x: tf.cast(x, tf.int32) + 1)
    stream = pipeline.batches(
        FED, Dataset(None, (x, y), (x, y)), recipe, 0, warm_up=5, service=address
    )
    seen = []
    for x, y in itertools.islice(stream, 6 * EXAMPLES // 50):
        first, second = (x.numpy() - 1).T
        np.testing.assert_array_equal(second, 2 * first)
        np.testing.assert_array_equal(y, first % 7)
        seen += first.tolist()
    times = np.bincount(seen, minlength=EXAMPLES)
    assert times.min() >= 1 and times.mean() == pytest.approx(6, rel=0.01)
    assert seen[:EXAMPLES] != sorted(seen[:EXAMPLES])


@pytest.mark.parametrize("what", ["strings", "ragged arrays"])
def test_strings_and_ragged_arrays_are_not_served(tmp_path, address, what):
    names = saved(tmp_path / "x.npy", np.array([b"a", b"bc"] * 50))
    x = names if what == "strings" else Ragged(np.ones(100), (np.arange(101),))
    data = Dataset(None, (x, np.ones(100)), None)
    with pytest.raises(UserError, match=f"input: service cannot read {what}; allowed here"):
        pipeline.batches(FED, data, Recipe(None), 0, warm_up=0, service=address)


def test_a_cell_is_fed_by_nodes_of_their_own(project):
    study = projects.small_study(
        models=["fashion_mlp"],
        input="service",
        preprocessing_nodes=2,
        strategies={"multi_worker_mirrored": {"nodes": [2]}},
    )
    projects.write_study(project, study)
    cell = "steps/fashion_mlp/multi_worker_mirrored/batch~64/nodes~2/repeat~0"
    record = f"results/small/records/{cell}.json"
    projects.snakemake(project, record)
    measured = read_record(project / record)
    assert measured.failure is None
    assert len(measured.result.workers) == 2
    for worker in measured.result.workers:
        assert worker.shard_examples == 0
        assert worker.input_us > 0
        # A worker receives what it trains on over a connection.
        assert worker.bytes_received > 6 * 64 * 28 * 28 / 4

"""A user's own pipeline feeds the workers as `fit` would divide it; waiting for it is timed."""

import itertools

import pytest

import make_records as make
import projects
from nodewise.core.errors import RefusedError
from nodewise.data import user_data
from nodewise.results.record import read_record

EXAMPLES, BATCH, WORKERS = 48, 4, 2
OWN = """
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

X = np.arange(48, dtype="float32")[:, None]
Y = X[:, 0].astype("int32")
TRAIN = tf.data.Dataset.from_tensor_slices((X, Y))


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return X[6 * index : 6 * index + 6], Y[6 * index : 6 * index + 6]


class Shuffled(Batches):
    order = np.arange(48)

    def __getitem__(self, index):
        rows = self.order[6 * index : 6 * index + 6]
        return X[rows], Y[rows]

    def on_epoch_end(self):
        self.order = np.roll(self.order, 7)


def nap(x):
    time.sleep(0.02)
    return x


def slow(x, y):
    slept = tf.numpy_function(nap, [x], x.dtype)
    slept.set_shape(x.shape)
    return slept, y


def arrays(): return (X, Y), None
def batches(): return TRAIN.shuffle(48).batch(6), None
def examples(): return TRAIN, None
def generated(): return Batches(), None
def threads(): return Shuffled(workers=2), None
def processes(): return Shuffled(workers=2, use_multiprocessing=True), None
def sleeping(): return TRAIN.repeat(20).batch(4).map(slow), None


def mixed():
    order = np.random.permutation(48)
    return (X[order], Y[order]), None


def files(names="part*.txt"):
    lines = tf.data.TextLineDataset(sorted(map(str, Path.cwd().glob(names))))
    return lines.map(lambda line: (tf.strings.to_number(line)[None], int(line))).batch(6), None


def one_file(): return files("whole.txt")


def build():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(48)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model
"""


WARM_UP = 7  # batches


def labels(function: str, rank: int, epochs: int = 2) -> list[list[int]]:
    """Return the labels that a worker sees in each epoch."""
    cell = make.cell(strategy="mpi", nodes=WORKERS, batch=BATCH, input="own", load=function)
    steps = EXAMPLES // (BATCH * WORKERS)
    stream = user_data.own_batches(cell, rank, warm_up=WARM_UP, steps=steps)
    seen = [y.numpy().tolist() for _, y in itertools.islice(stream, WARM_UP + epochs * steps)]
    assert {len(batch) for batch in seen} == {BATCH}
    timed = list(itertools.chain(*seen[WARM_UP:]))
    return [timed[: EXAMPLES // WORKERS], timed[EXAMPLES // WORKERS :]]


@pytest.mark.parametrize(
    "kind",
    ["arrays", "batches", "examples", "generated", "threads", "mixed", "files", "one_file"],
)
def test_workers_see_each_example_once_in_every_timed_epoch(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(OWN)
    for part in range(4):
        numbers = map(str, range(12 * part, 12 * part + 12))
        (tmp_path / f"part{part}.txt").write_text("\n".join(numbers))
    (tmp_path / "whole.txt").write_text("\n".join(map(str, range(EXAMPLES))))
    workers = [labels(f"mine.py:{kind}", rank) for rank in range(WORKERS)]
    for epoch in zip(*workers, strict=True):
        assert sorted(itertools.chain(*epoch)) == list(range(EXAMPLES))
    if kind == "files":  # each worker reads whole files
        assert {label // 12 for label in workers[0][0]} == {0, 2}
    if kind == "examples":  # a global batch is that of one process
        assert sorted(workers[0][0][:BATCH] + workers[1][0][:BATCH]) == [*range(BATCH * WORKERS)]


def test_processes_that_could_not_import_the_file_are_refused(tmp_path, monkeypatch):
    """Keras would start them again and again."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(OWN)
    with pytest.raises(RefusedError, match="processes: use_multiprocessing is not allowed"):
        labels("mine.py:processes", 0)


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "nodes"), [("single", 1), ("parameter_server", 2)])
def test_waiting_for_a_slow_pipeline_is_the_input_of_a_step(project, strategy, nodes):
    (project / "mine.py").write_text(OWN)
    own = f"--model mine.py:build --dataset mine.py:sleeping --input own --out {strategy}.json"
    options = f"--strategy {strategy} --nodes {nodes} --batch 4 --steps 40 {own}"
    said = projects.finish(projects.start(project, "nodewise", "measure", *options.split()))
    assert "\ninput  " in said
    record = read_record(project / f"{strategy}.json")
    assert record.cell.input == "own"
    for worker in record.result.workers:
        assert worker.input_us > 40 * 15_000  # of 20 ms a step, less what is computed

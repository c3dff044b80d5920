"""What a worker reports: the time, bytes and CPU time of its steps, and scores on test examples."""

import contextlib
import itertools
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf

from kinds.plain import stateful
from nodewise.data import Dataset
from nodewise.measure import combine, stopwatch, worker
from nodewise.measure.stopwatch import Stopwatch
from nodewise.measure.traffic import Traffic
from nodewise.models.training import Recipe
from nodewise.strategies import STRATEGIES, api

STEPS, SENT_PER_STEP = 3, 5_000


class Late:
    """A strategy whose steps queue bytes that only a barrier certainly sends."""

    train = api.Strategy.train

    def __init__(self, wire):
        self.wire, self.queue = wire, b""

    def step(self, batch):
        self.queue += bytes(SENT_PER_STEP)
        return {"loss": tf.zeros([])}

    def barrier(self):
        self.wire.sendall(self.queue)
        self.queue = b""


@contextlib.contextmanager
def connection():
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as one,
    ):
        other, _ = server.accept()
        with other:
            yield one


def stream():
    return itertools.repeat((tf.zeros([8, 4]), tf.zeros(8)))


def test_bytes_still_queued_when_the_last_step_returns_count_and_those_of_a_pause_do_not():
    with connection() as wire:
        late = Late(wire)
        watch = Stopwatch(late, [].append, 2 * STEPS)
        watch.start()
        watch.train(stream(), STEPS)
        with watch.pause():
            late.step(None)
            time.sleep(1)
        watch.train(stream(), STEPS)
        watch.stop()
    seen = watch.result()
    assert seen["bytes_sent"] == 2 * STEPS * SENT_PER_STEP
    assert len(seen["step_us"]) == 2 * STEPS
    assert sum(seen["step_us"]) / 1e6 <= seen["elapsed_s"] < sum(seen["step_us"]) / 1e6 + 1


class Hasty:
    """One of two workers; each step sends bytes to the other one and waits for nobody."""

    train = api.Strategy.train

    def __init__(self, meeting, received, other):
        self.meeting, self.received, self.other = meeting, received, other

    def step(self, batch):
        self.received[self.other] += SENT_PER_STEP
        return {"loss": tf.zeros([])}

    def barrier(self):
        self.meeting.wait(5)


def test_a_worker_that_looks_late_counts_just_the_bytes_of_its_steps(monkeypatch):
    """The other worker is quick: with its first timed step and with a step after the last one."""
    meeting, received, counted = threading.Barrier(2), [0, 0], {}
    me = threading.local()

    def traffic():
        time.sleep(0.2 * me.rank)
        return Traffic(0, received[me.rank], 0)

    def work(rank):
        me.rank = rank
        strategy = Hasty(meeting, received, 1 - rank)
        watch = Stopwatch(strategy, [].append, STEPS)
        watch.start()
        watch.train(stream(), STEPS)
        watch.stop()
        counted[rank] = watch.result()["bytes_received"]
        strategy.step(None)

    monkeypatch.setattr(stopwatch, "traffic", traffic)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(2)))
    assert counted == dict.fromkeys(range(2), STEPS * SENT_PER_STEP)


class AtOnce:
    """A strategy that trains its steps in two chunks, of which the first takes longer."""

    def train(self, stream, steps):
        yield api.Steps({"loss": 6.0}, input_s=[0.1, 0.2], step_s=[30.0, 40.0])
        yield api.Steps({"loss": 5.0}, input_s=[0.0], step_s=[0.5])


def test_steps_trained_at_once_are_counted_one_by_one():
    sent = []
    watch = Stopwatch(AtOnce(), sent.append, STEPS)
    before = time.monotonic()
    epoch = watch.train(iter(()), STEPS)
    seen = watch.result()
    assert seen["step_us"] == [30_000_000, 40_000_000, 500_000]
    assert seen["input_us"] == 300_000
    assert (epoch["steps"], epoch["logs"]) == (STEPS, {"loss": 5.0})
    (first,) = sent
    assert first["event"] == "first_step"
    assert first["at"] == pytest.approx(before - 40, abs=20)  # the second step ended 40 s later


def test_a_model_with_states_is_evaluated_in_batches_of_its_size():
    trained = STRATEGIES["single"].worker().Strategy(api.Job(0, 1, 4, 1, lambda: stateful(4)))
    test = np.ones((10, 5, 3), np.float32), np.ones((10, 1), np.float32)
    found = worker._evaluate(trained, Recipe(None), Dataset(None, None, test), 1, 0)
    assert found["examples"] == 8 and found["logs"]["loss"] > 0


@pytest.mark.parametrize("named", [{"acc": 0.5}, {"binary_accuracy": 0.1, "accuracy": 0.5}])
def test_the_accuracy_is_the_metric_of_that_name_and_never_a_mean_of_two(named):
    found = combine._evaluation([{"examples": 3, "logs": named}, {"examples": 0, "logs": {}}])
    assert (found.examples, found.loss, found.accuracy) == (3, None, 0.5)

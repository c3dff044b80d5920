"""Every step is counted, and sent bytes count for the steps that caused them."""

import contextlib
import itertools
import socket
import threading
import time

import tensorflow as tf

from nodewise.cluster.kinds.local import Local
from nodewise.core.cell import Cell, Extent
from nodewise.measure import worker as train
from nodewise.measure.traffic import Traffic
from nodewise.strategies import api

STEPS, SENT_PER_STEP = 3, 5_000


class Model:
    """A model without metrics."""

    def reset_metrics(self):
        pass


class Late:
    """A strategy whose steps queue bytes that only a barrier certainly sends."""

    model, train = Model(), api.Strategy.train

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


def cell():
    return Cell(
        study="ntua",
        experiment="steps",
        model="fashion_mlp",
        dataset="fashion_mnist",
        strategy="single",
        cluster=Local(),
        batch=8,
        nodes=1,
        repeat=0,
        extent=Extent(steps=STEPS),
        seed=1,
        time_limit_s=60,
    )


def stream():
    return itertools.repeat((tf.zeros([8, 4]), tf.zeros(8)))


def test_bytes_still_queued_when_the_last_step_returns_are_counted():
    with connection() as wire:
        seen = train._timed(cell(), Late(wire), stream(), 4, lambda message: None)
    assert seen["bytes_sent"] == STEPS * SENT_PER_STEP
    assert len(seen["input_us"]) == len(seen["step_us"]) == STEPS


class Hasty:
    """One of two workers; each step sends bytes to the other one and waits for nobody."""

    model, train = Model(), api.Strategy.train

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
        timed = train._timed(cell(), strategy, stream(), 4, lambda message: None)
        counted[rank] = timed["bytes_received"]
        strategy.step(None)

    monkeypatch.setattr(train, "traffic", traffic)
    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert counted == dict.fromkeys(range(2), STEPS * SENT_PER_STEP)


class AtOnce:
    """A strategy that trains its steps in two chunks, of which the first takes longer."""

    model = Model()

    def train(self, stream, steps):
        yield api.Steps({"loss": 6.0}, input_s=[0.1, 0.2], step_s=[3.0, 4.0])
        yield api.Steps({"loss": 5.0}, input_s=[0.0], step_s=[0.5])


def test_steps_trained_at_once_are_counted_one_by_one():
    sent = []
    clock = train.Clock(sent.append, STEPS)
    before = time.monotonic()
    epoch = clock.train(AtOnce(), iter(()), STEPS)
    assert clock.step_us == [3_000_000, 4_000_000, 500_000]
    assert clock.input_us == [100_000, 200_000, 0]
    assert (epoch["steps"], epoch["logs"]) == (STEPS, {"loss": 5.0})
    (first,) = sent
    assert first["event"] == "first_step"
    assert before - 4 <= first["at"] <= time.monotonic() - 4  # The second step ended 4 s later.

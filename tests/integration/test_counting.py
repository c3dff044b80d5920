"""What a worker sends belongs to the steps that caused it, also when it leaves after them."""

import contextlib
import itertools
import socket

import tensorflow as tf

from nodewise import train
from nodewise.cells import Cell, Extent, Local

STEPS, SENT_PER_STEP = 3, 5_000


class Late:
    """A step leaves its bytes in a queue; only a barrier puts them on the wire for sure."""

    def __init__(self, wire):
        self.wire, self.queue = wire, b""

    def step(self, x, y):
        self.queue += bytes(SENT_PER_STEP)
        return tf.zeros(2)

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


def test_bytes_still_queued_when_the_last_step_returns_are_counted():
    cell = Cell(
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
    stream = itertools.repeat((tf.zeros([8, 4]), tf.zeros(8)))
    clock = train.Clock(lambda message: None, STEPS)
    with connection() as wire:
        seen = train._timed(cell, Late(wire), stream, 4, clock)
    assert seen["bytes_sent"] == STEPS * SENT_PER_STEP
    assert len(seen["input_us"]) == len(seen["step_us"]) == STEPS

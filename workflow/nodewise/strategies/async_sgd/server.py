"""A parameter server of asynchronous SGD, and the messages between workers and servers.

A request consists of two messages: its kind and a payload. So does the answer: a note and a
payload.
"""

import os
import queue
import struct
import threading
import time
import traceback
from contextlib import suppress
from enum import Enum
from typing import NamedTuple, cast

import numpy as np
from typing_extensions import Buffer

from nodewise.strategies import api
from nodewise.strategies.async_sgd import AsyncSgd
from nodewise.strategies.async_sgd.server_part import Part
from nodewise.strategies.async_sgd.staleness import Flat, Gathering, Ledger

NOTE_BYTES = struct.Struct(">IId")


class Request(Enum):
    """The kind of a request from a worker to a server."""

    PUSH = b"push"  # send a gradient, get the weights
    PULL = b"pull"  # get the weights
    MEET = b"meet"  # send values, get the mean of all workers' values once all have sent theirs
    SAVE = b"save"  # get the server's state
    RESTORE = b"restore"  # send a state


class Note(NamedTuple):
    """What a server reports about a gradient.

    Attributes:
        staleness: the staleness of the gradient.
        lead: how many steps its worker is ahead of the slowest one.
        held_s: for how many seconds the server held the worker back.
    """

    staleness: int = 0
    lead: int = 0
    held_s: float = 0.0


class Server:
    """Answers the workers in its own threads until its process is ended."""

    def __init__(self, job: api.Job) -> None:
        options, number = cast(AsyncSgd, job.options), job.rank - job.size
        self._part = Part(job, number, options.servers)
        self._ledger = Ledger(job.size, options.bound)
        self._gathering = Gathering(options.updates or 1, scaled=options.scale_by_staleness)
        self._held: dict[int, tuple[int, float]] = {}  # worker: gradient's staleness, held since
        self._inbox: queue.SimpleQueue[tuple[int, Request, bytearray]] = queue.SimpleQueue()
        self._peers = job.connect(servers=True)
        for worker in range(job.size):
            threading.Thread(target=self._receive, args=(worker,), daemon=True).start()
        threading.Thread(target=self._serve, daemon=True).start()

    def _receive(self, worker: int) -> None:
        """Receive the requests of one worker. A slow link delays only its own worker."""
        with suppress(OSError):  # the worker is gone, which its launcher notices
            while True:
                request = Request(bytes(self._peers.receive(worker)))
                self._inbox.put((worker, request, self._peers.receive(worker, self._part.longest)))

    def _serve(self) -> None:
        """Handle one request after the other, in the order in which they were fully received."""
        try:
            while True:
                worker, request, payload = self._inbox.get()
                self._handle(worker, request, payload)
                self._release()
        except Exception:
            traceback.print_exc()
            os._exit(1)  # nobody joins this thread; the launcher notices that the process is gone

    def _handle(self, worker: int, request: Request, payload: bytearray) -> None:
        match request:
            case Request.PUSH:
                self._take(worker, np.frombuffer(payload, np.float32))
            case Request.PULL:
                self._give_weights(worker, Note())
            case Request.MEET:
                mean = self._ledger.came(worker, np.frombuffer(payload, np.float32))
                if mean is not None:
                    for one in range(self._ledger.workers):
                        self._answer(one, Note(), mean.tobytes())
            case Request.SAVE:
                self._answer(worker, Note(), self._part.saved())
            case Request.RESTORE:
                self._part.restore(payload)
                self._gathering.reset()
                self._answer(worker, Note(), b"")

    def _take(self, worker: int, gradient: Flat) -> None:
        staleness = self._ledger.pushed(worker)
        if update := self._gathering.add(gradient, staleness):
            self._part.apply(*update)
            self._ledger.version += 1
        if self._ledger.must_wait(worker):
            self._held[worker] = staleness, time.monotonic()
        else:
            self._give_weights(worker, Note(staleness, self._ledger.lead(worker)))

    def _release(self) -> None:
        """Send the weights to the workers that are no longer too far ahead."""
        for worker, (staleness, since) in list(self._held.items()):
            if not self._ledger.must_wait(worker):
                del self._held[worker]
                held_s = time.monotonic() - since
                self._give_weights(worker, Note(staleness, self._ledger.lead(worker), held_s))

    def _give_weights(self, worker: int, note: Note) -> None:
        self._ledger.pulled(worker)
        self._answer(worker, note, self._part.weights.data)

    def _answer(self, worker: int, note: Note, payload: Buffer) -> None:
        self._peers.send(worker, NOTE_BYTES.pack(*note))
        self._peers.send(worker, payload)

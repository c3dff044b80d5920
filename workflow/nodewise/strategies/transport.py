"""TCP connections between all processes of a job, and collectives over them.

Used by strategies that send their own messages. A message is its length (8 bytes, big-endian)
followed by its bytes. Waiting for a message uses no CPU time, because a node may have only a
fraction of a core. This module must not import TensorFlow.
"""

import os
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import psutil
from numpy.typing import NDArray
from typing_extensions import Buffer

from nodewise.cluster.api import parsed

LONGEST = 2**32  # largest allowed message, in bytes
_RETRY_S = 0.02
_AT_ONCE = 1 << 18  # a long message is read in pieces of this many bytes
_FEW = 1 << 14  # up to this many bytes, reading packet by packet is cheaper than waiting for all
_LENGTH = struct.Struct(">Q")
LENGTH_BYTES = _LENGTH.size  # sent before each message
_RANK = struct.Struct(">I")

Floats = NDArray[np.float32]


class Peers:
    """TCP connections from this process to every other process of the job.

    `send` returns at once: it never waits until the peer sends or receives. Do not change a message
    that was passed to `send` before `flush` has returned.
    """

    def __init__(self, rank: int, addresses: Sequence[str], *, timeout_s: float) -> None:
        """Connect to all other processes. Collective: all must call it within `timeout_s`.

        The listening socket is closed afterwards, so that a TensorFlow server can use the address.

        Args:
            rank: the rank of this process.
            addresses: `host:port` of every process, by rank.
            timeout_s: the longest wait for a peer, here and in later calls.

        Raises:
            TimeoutError: a peer did not connect in time.
        """
        self.rank, self.size = rank, len(addresses)
        self._timeout_s = timeout_s
        self._sockets: dict[int, socket.socket] = {}
        self._pending: list[Future[None]] = []
        self._last: dict[int, Future[None]] = {}  # the last send to each peer
        deadline = time.monotonic() + timeout_s
        with socket.create_server(parsed(addresses[rank]), backlog=self.size) as listener:
            for lower in range(rank):
                self._keep(lower, _connected(parsed(addresses[lower]), deadline))
                self._sockets[lower].sendall(_RANK.pack(rank))
            listener.settimeout(timeout_s)
            for _ in range(rank + 1, self.size):
                other, _ = listener.accept()
                other.settimeout(timeout_s)
                self._keep(_RANK.unpack(_read(other, _RANK.size))[0], other)
        self._senders = {peer: ThreadPoolExecutor(1) for peer in self._sockets}
        self.exchange(b"")  # return only when all processes have closed their listeners

    def _keep(self, peer: int, connection: socket.socket) -> None:
        connection.settimeout(self._timeout_s)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sockets[peer] = connection

    def send(self, to: int, message: Buffer) -> None:
        """Send `message` to the process `to`, after earlier messages to it.

        As much as fits into the socket's buffer is written at once, and a thread writes the rest:
        waking a thread takes several times as long as sending a short message.
        """
        view = memoryview(message).cast("B")
        parts = [memoryview(_LENGTH.pack(len(view))), view]
        if to not in self._last or self._last[to].done():
            parts = self._left_of(to, parts)
        if parts:
            # a caller may never flush: drop finished sends, but keep failures for `flush`
            self._pending = [sent for sent in self._pending if not sent.done() or sent.exception()]
            self._last[to] = self._senders[to].submit(self._send, to, parts)
            self._pending.append(self._last[to])

    def _left_of(self, to: int, parts: list[memoryview]) -> list[memoryview]:
        """Write as much as fits into the socket's buffer; return the rest."""
        try:
            written = os.writev(self._sockets[to].fileno(), parts)
        except OSError:  # the buffer is full; or the peer is gone, which the thread will notice
            return parts
        left = []
        for part in parts:
            if written < len(part):
                left.append(part[written:])
            written = max(0, written - len(part))
        return left

    def _send(self, to: int, parts: list[memoryview]) -> None:
        for part in parts:
            for start in range(0, len(part), _AT_ONCE):  # the timeout applies to each piece
                self._sockets[to].sendall(part[start : start + _AT_ONCE])

    def flush(self) -> None:
        """Wait until all sent messages have been handed to the operating system.

        Raises:
            OSError: a peer is gone or stuck.
        """
        pending, self._pending = self._pending, []
        for sent in pending:
            sent.result()

    def receive(self, peer: int) -> bytearray:
        """Return the next message from `peer`.

        Raises:
            ConnectionError: the peer is gone, or announces a message that is too long.
            TimeoutError: the peer sent nothing in time.
        """
        (length,) = _LENGTH.unpack(_read(self._sockets[peer], LENGTH_BYTES))
        if length > LONGEST:
            raise ConnectionError(f"peer {peer} announces {length:,} bytes")
        return _read(self._sockets[peer], length)

    def receive_array(self, peer: int) -> Floats:
        """Return the next message from `peer` as float32 values."""
        return np.frombuffer(self.receive(peer), np.float32)

    def exchange(self, message: bytes) -> list[bytes | bytearray]:
        """Send `message` to all other processes; return the messages of all, by rank. Collective.

        Raises:
            OSError: a peer is gone or stuck.
        """
        for peer in self._sockets:
            self.send(peer, message)
        received = {peer: self.receive(peer) for peer in self._sockets}
        self.flush()
        return [received.get(rank, message) for rank in range(self.size)]

    def fileno(self, peer: int) -> int:
        """Return the file descriptor that becomes readable when `peer` has sent something."""
        return self._sockets[peer].fileno()


class Direct:
    """All-to-all, all-gather and all-reduce in which every worker sends directly to every other.

    An all-reduce sends as many bytes as a ring, 2(n−1)/n of the array from each worker, but in two
    exchanges instead of the ring's 2(n−1) steps. Arrays are float32. `seconds` is the total time
    spent in collectives so far.

    The workers are the `members` of `peers`, by default all. A worker's rank is its index in
    `members`.
    """

    def __init__(self, peers: Peers, members: Sequence[int] = ()) -> None:
        self._peers = peers
        self._members = members or range(peers.size)
        self.rank, self.size = self._members.index(peers.rank), len(self._members)
        self.seconds = 0.0

    def all_to_all(self, parts: Sequence[Floats]) -> list[Floats]:
        """Send `parts[r]` to each worker r; return what this worker received, flat, by rank.

        Raises:
            OSError: a peer is gone or stuck.
        """
        with self._timed():
            return self._exchange(parts)

    def all_gather(self, values: Floats) -> list[Floats]:
        """Return the `values` of all workers, flat, by rank."""
        return self.all_to_all([values] * self.size)

    def reduce_scatter(self, parts: Sequence[Floats]) -> Floats:
        """Return the sum of `parts[rank]` over all workers, in the shape of this worker's own part.

        `rank` is that of this worker.
        """
        return _sum(self.all_to_all(parts)).reshape(parts[self.rank].shape)

    def all_reduce(self, values: Floats) -> Floats:
        """Return the sum of `values`, (entries,), over all workers.

        Each worker sums one part of the entries and sends that sum to all others.
        """
        with self._timed():
            own = _sum(self._exchange(np.array_split(values, self.size)))
            return np.concatenate(self._exchange([own] * self.size))

    def _exchange(self, parts: Sequence[Floats]) -> list[Floats]:
        """Send each worker its part; return what every worker sent to this one, by rank.

        In step s a worker sends to the worker s ranks after it and receives from the one s ranks
        before it, so every receiver has one sender at a time.
        """
        own = [np.ravel(part) for part in parts]
        found = [*own]
        for step in range(1, self.size):
            to, source = (self.rank + step) % self.size, (self.rank - step) % self.size
            self._peers.send(self._members[to], own[to].data)
            found[source] = self._peers.receive_array(self._members[source])
        self._peers.flush()
        return found

    @contextmanager
    def _timed(self) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - started


def interface(address: str) -> str:
    """Return the name of this node's network interface that has `address`, a `host:port`."""
    host, _ = parsed(address)
    return next(
        name
        for name, known in psutil.net_if_addrs().items()
        if any(one.address == host for one in known)
    )


def _connected(address: tuple[str, int], deadline: float) -> socket.socket:
    while True:
        try:
            return socket.create_connection(address, timeout=max(0.1, deadline - time.monotonic()))
        except ConnectionRefusedError as error:  # the peer does not listen yet
            if time.monotonic() > deadline:
                raise TimeoutError(f"{address[0]}:{address[1]} did not come") from error
            time.sleep(_RETRY_S)


def _read(connection: socket.socket, length: int) -> bytearray:
    octets = bytearray(length)
    _fill(connection, memoryview(octets))
    return octets


def _fill(connection: socket.socket, view: memoryview) -> None:
    """Read into `view` until it is full.

    To save CPU time, long messages wake this process once per 256 kB instead of once per packet.
    """
    long = len(view) > _FEW
    while view:
        if long:
            _wake_at(connection, min(len(view), _AT_ONCE))
        received = connection.recv_into(view)
        if not received:
            raise ConnectionError("the peer has closed its connection")
        view = view[received:]
    if long:
        _wake_at(connection, 1)


def _wake_at(connection: socket.socket, octets: int) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, octets)


def _sum(parts: Sequence[Floats]) -> Floats:
    """Return the sum in the order of ranks, so that all workers get the same rounding."""
    total = parts[0].copy()
    for other in parts[1:]:
        total += other
    return total

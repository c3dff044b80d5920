"""TCP connections between all processes of a job, and collectives over them.

Used by strategies that send their own messages. A message is its length (8 bytes, big-endian)
followed by its bytes. Waiting for a message uses no CPU time, because a node may have only a
fraction of a core. This module must not import TensorFlow.
"""

import hashlib
import os
import socket
import struct
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import psutil
from numpy.typing import NDArray
from typing_extensions import Buffer

from nodewise.cluster.api import parsed

SHORT = 1 << 16  # bytes, at most, of a message without weights, gradients or activations
_RETRY_S = 0.02
_HELLO_S = 5.0  # a connection that says nothing for longer is not of this job
_AT_ONCE = 1 << 18  # a long message is read in pieces of this many bytes
_FEW = 1 << 14  # up to this many bytes, reading packet by packet is cheaper than waiting for all
_LENGTH = struct.Struct(">Q")
LENGTH_BYTES = _LENGTH.size  # sent before each message
_HELLO = struct.Struct(">32sI")  # the digest of the job's token, and a rank

Floats = NDArray[np.float32]


class Peers:
    """TCP connections from this process to every other process of the job.

    `send` returns at once: it never waits until the peer sends or receives. Do not change a message
    that was passed to `send` before `flush` has returned.
    """

    def __init__(
        self, rank: int, addresses: Sequence[str], *, timeout_s: float, token: str = ""
    ) -> None:
        """Connect to all other processes. Collective: all must call it within `timeout_s`.

        The listening socket is closed afterwards, so that a TensorFlow server can use the address.
        The port stays reserved as long as this object exists.

        Args:
            rank: the rank of this process.
            addresses: `host:port` of every process, by rank.
            timeout_s: the longest wait for a peer, here and in later calls.
            token: a secret of the job. Connections without it are closed.

        Raises:
            TimeoutError: a peer did not connect in time.
            ConnectionError: a process of the job has a wrong rank, or the process at an address is
                not of the job.
        """
        self.rank, self.size = rank, len(addresses)
        self._timeout_s = timeout_s
        self._sockets: dict[int, socket.socket] = {}
        self._pending: list[Future[None]] = []
        self._last: dict[int, Future[None]] = {}  # the last send to each peer
        self._port = reserve(parsed(addresses[rank]))
        digest = hashlib.sha256(token.encode()).digest()
        deadline = time.monotonic() + timeout_s
        with socket.create_server(parsed(addresses[rank]), backlog=self.size) as listener:
            for lower in range(rank):
                self._keep(lower, _connected(parsed(addresses[lower]), deadline))
                self._sockets[lower].sendall(_HELLO.pack(digest, rank))
            while len(self._sockets) < self.size - 1:
                listener.settimeout(max(0.1, deadline - time.monotonic()))
                connection, _ = listener.accept()
                peer = _greeted(connection, digest)
                if peer is None:
                    connection.close()
                elif rank < peer < self.size and peer not in self._sockets:
                    self._keep(peer, connection)
                else:
                    raise ConnectionError(f"a process of this job has the wrong rank {peer}")
        self._senders = {peer: ThreadPoolExecutor(1) for peer in self._sockets}
        # return only when all processes have closed their listeners
        if any(answer != digest for answer in self.exchange(digest)):
            raise ConnectionError("a peer is not a process of this job")

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

    def receive(self, peer: int, at_most: int = SHORT) -> bytearray:
        """Return the next message from `peer`, of `at_most` bytes.

        Raises:
            ConnectionError: the peer is gone, or announces a message that is too long.
            TimeoutError: the peer sent nothing in time.
        """
        (length,) = _LENGTH.unpack(_read(self._sockets[peer], LENGTH_BYTES))
        if length > at_most:
            raise ConnectionError(f"peer {peer} announces {length:,} bytes, not up to {at_most:,}")
        return _read(self._sockets[peer], length)

    def receive_array(self, peer: int, entries: int) -> Floats:
        """Return the next message from `peer`, which has so many float32 values."""
        values = np.frombuffer(self.receive(peer, 4 * entries), np.float32)
        if len(values) != entries:
            raise ConnectionError(f"peer {peer} sends {len(values):,} values, not {entries:,}")
        return values

    def exchange(self, message: bytes, at_most: int | None = None) -> list[bytes | bytearray]:
        """Send `message` to all other processes; return the messages of all, by rank. Collective.

        Messages have `at_most` bytes: by default SHORT, or as many as this process sends.

        Raises:
            OSError: a peer is gone or stuck.
        """
        if at_most is None:
            at_most = max(SHORT, len(message))
        for peer in self._sockets:
            self.send(peer, message)
        received = {peer: self.receive(peer, at_most) for peer in self._sockets}
        self.flush()
        return [received.get(rank, message) for rank in range(self.size)]

    def fileno(self, peer: int) -> int:
        """Return the file descriptor that becomes readable when `peer` has sent something."""
        return self._sockets[peer].fileno()


class Direct:
    """An all-reduce in which every worker sends directly to every other.

    It sends as many bytes as a ring, 2(n−1)/n of the array from each worker, but in two exchanges
    instead of the ring's 2(n−1) steps.

    The workers are the `members` of `peers`, by default all. A worker's rank is its index in
    `members`.
    """

    def __init__(self, peers: Peers, members: Sequence[int] = ()) -> None:
        self._peers = peers
        self._members = members or range(peers.size)
        self.rank, self.size = self._members.index(peers.rank), len(self._members)

    def all_reduce(self, values: Floats) -> Floats:
        """Return the sum of `values`, float32, (entries,), over all workers.

        Each worker sums one part of the entries and sends that sum to all others.

        Raises:
            OSError: a peer is gone or stuck.
        """
        parts = np.array_split(np.asarray(values), self.size)
        mine = len(parts[self.rank])
        own = _sum(self._exchange(parts, [mine] * self.size))
        return np.concatenate(self._exchange([own] * self.size, [len(part) for part in parts]))

    def _exchange(self, parts: Sequence[Floats], entries: Sequence[int]) -> list[Floats]:
        """Send each worker its part; return the `entries` that every worker sent, by rank.

        In step s a worker sends to the worker s ranks after it and receives from the one s ranks
        before it, so every receiver has one sender at a time.
        """
        found = [*parts]
        for step in range(1, self.size):
            to, source = (self.rank + step) % self.size, (self.rank - step) % self.size
            self._peers.send(self._members[to], parts[to].data)
            found[source] = self._peers.receive_array(self._members[source], entries[source])
        self._peers.flush()
        return found


def reserve(address: tuple[str, int]) -> socket.socket:
    """Return a socket that keeps a port for this process; with port 0, a free one.

    It does not listen, so that a server of this process can bind the same port.
    """
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(address)
    return kept


def interface(address: str) -> str:
    """Return the name of this node's network interface that has `address`, a `host:port`."""
    host, _ = parsed(address)
    return next(
        name
        for name, known in psutil.net_if_addrs().items()
        if any(one.address == host for one in known)
    )


def _greeted(connection: socket.socket, digest: bytes) -> int | None:
    """Return the rank of a new connection; None if it is not of the job with this `digest`."""
    connection.settimeout(_HELLO_S)
    try:
        told, rank = _HELLO.unpack(_read(connection, _HELLO.size))
    except OSError:
        return None
    return int(rank) if told == digest else None


def _connected(address: tuple[str, int], deadline: float) -> socket.socket:
    while True:
        try:
            return socket.create_connection(address, timeout=max(0.1, deadline - time.monotonic()))
        except ConnectionRefusedError as error:  # the peer does not listen yet
            if time.monotonic() > deadline:
                raise TimeoutError(f"timed out connecting to {address[0]}:{address[1]}") from error
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

"""TCP connections between all processes of a job, and collectives over them.

Used by strategies that send their own messages. A message is its length (8 bytes, big-endian)
followed by its bytes. Waiting for a message uses no CPU time, because a node may have only a
fraction of a core. There are no timeouts: the connection to a process that has ended breaks, and
the time limit of the cell ends a job that hangs. This module must not import TensorFlow.
"""

import hashlib
import os
import socket
import struct
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray
from typing_extensions import Buffer

from nodewise.cluster.api import parsed

SHORT = 1 << 16  # bytes, at most, of a message without weights, gradients or activations
_RETRY_S = 0.02
_NEVER_S = 1e6  # a socket with a timeout polls before it reads, which SO_RCVLOWAT needs
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

    def __init__(self, rank: int, addresses: Sequence[str], *, token: str = "") -> None:
        """Connect to all other processes. Collective.

        The listening socket is closed afterwards, so that a TensorFlow server can use the address.
        The port stays reserved as long as this object exists.

        Args:
            rank: the rank of this process.
            addresses: `host:port` of every process, by rank.
            token: a secret of the job. Connections without it are closed.

        Raises:
            ConnectionError: a process of the job has a wrong rank, or the process at an address is
                not of the job.
        """
        self.rank, self.size = rank, len(addresses)
        self._sockets: dict[int, socket.socket] = {}
        self._pending: list[Future[None]] = []
        self._last: dict[int, Future[None]] = {}  # the last send to each peer
        self._port = reserve(parsed(addresses[rank]))
        digest = hashlib.sha256(token.encode()).digest()
        with socket.create_server(parsed(addresses[rank]), backlog=self.size) as listener:
            for lower in range(rank):
                self._keep(lower, _connected(parsed(addresses[lower])))
                self._sockets[lower].sendall(_HELLO.pack(digest, rank))
            while len(self._sockets) < self.size - 1:
                connection, _ = listener.accept()
                if (peer := _greeted(connection, digest)) is None:
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
        connection.settimeout(_NEVER_S)
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
            self._sockets[to].sendall(part)

    def flush(self) -> None:
        """Wait until all sent messages have been handed to the operating system.

        Raises:
            OSError: a peer is gone.
        """
        pending, self._pending = self._pending, []
        for sent in pending:
            sent.result()

    def receive(self, peer: int, at_most: int = SHORT) -> bytearray:
        """Return the next message from `peer`, of `at_most` bytes.

        Raises:
            ConnectionError: the peer is gone, or announces a message that is too long.
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

    def exchange(
        self, message: bytes, at_most: int | None = None, among: Sequence[int] = ()
    ) -> list[bytes | bytearray]:
        """Send `message` to all processes of `among`, by default all; return theirs. Collective.

        Messages have `at_most` bytes: by default SHORT, or as many as this process sends.

        Raises:
            OSError: a peer is gone.
        """
        among = among or range(self.size)
        longest = max(SHORT, len(message)) if at_most is None else at_most
        return self._swap([message] * len(among), [longest] * len(among), among)

    def total(self, values: Floats, among: Sequence[int] = ()) -> Floats:
        """Return the sum of `values`, (entries,), over the processes of `among`. Collective.

        Each process sums one part of the entries in the order of `among`, and sends this sum to all
        others: as many bytes as in a ring, 2(n−1)/n of the array.

        Raises:
            OSError: a peer is gone.
        """
        among = among or range(self.size)
        parts = np.array_split(values, len(among))
        mine = parts[among.index(self.rank)].nbytes
        first, *others = self._swap([part.data for part in parts], [mine] * len(among), among)
        total = np.frombuffer(first, np.float32).copy()
        for other in others:
            total += np.frombuffer(other, np.float32)
        sums = self._swap([total.data] * len(among), [part.nbytes for part in parts], among)
        return np.concatenate([np.frombuffer(one, np.float32) for one in sums])

    def _swap(
        self, messages: Sequence[Buffer], at_most: Sequence[int], among: Sequence[int]
    ) -> list[Any]:
        """Send each process of `among` its message; return the messages that they send."""
        for peer, message in zip(among, messages, strict=True):
            if peer != self.rank:
                self.send(peer, message)
        received = [
            message if peer == self.rank else self.receive(peer, most)
            for peer, message, most in zip(among, messages, at_most, strict=True)
        ]
        self.flush()
        return received

    def fileno(self, peer: int) -> int:
        """Return the file descriptor that becomes readable when `peer` has sent something."""
        return self._sockets[peer].fileno()


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


def _connected(address: tuple[str, int]) -> socket.socket:
    while True:
        try:
            return socket.create_connection(address)
        except ConnectionRefusedError:  # the peer does not listen yet
            time.sleep(_RETRY_S)


def _read(connection: socket.socket, length: int) -> bytearray:
    """Return the next `length` bytes.

    To save CPU time, long messages wake this process once per 256 kB instead of once per packet.
    """
    octets = bytearray(length)
    view, long = memoryview(octets), length > _FEW
    while view:
        if long:
            _wake_at(connection, min(len(view), _AT_ONCE))
        received = connection.recv_into(view)
        if not received:
            raise ConnectionError("the peer has closed its connection")
        view = view[received:]
    if long:
        _wake_at(connection, 1)
    return octets


def _wake_at(connection: socket.socket, octets: int) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, octets)

"""Messages between workers arrive whole and in order; a lost or stuck peer is an error."""

import socket
import time

import numpy as np
import pytest

from everywhere import addresses, everywhere
from nodewise.strategies.transport import LENGTH_BYTES, Peers


def test_everybody_can_send_large_messages_to_everybody_at_once():
    size = 3_000_000  # larger than a socket's buffers

    def work(peers):
        others = [rank for rank in range(peers.size) if rank != peers.rank]
        for other in others:
            peers.send(other, np.full(size, peers.rank, np.float32))
            peers.send(other, b"after that")
        for other in others:
            assert (peers.receive_array(other) == np.full(size, other)).all()
            assert peers.receive(other) == b"after that"
        peers.flush()
        return True

    assert everywhere(3, work) == [True] * 3


def test_messages_of_all_sizes_come_whole_and_in_order():
    """Some messages are sent at once, some in parts, some wait for earlier ones."""
    chance = np.random.default_rng(1)
    sizes = [*(10 ** chance.uniform(0, 6.7, 60)).astype(int).tolist(), 0, 5, 0]

    def work(peers):
        (other,) = {0, 1} - {peers.rank}
        for place, size in enumerate(sizes):
            peers.send(other, bytes([place]) * size)
        time.sleep(0.05 * peers.rank)
        for place, size in enumerate(sizes):
            assert peers.receive(other) == bytes([place]) * size
        peers.flush()
        return True

    assert everywhere(2, work) == [True] * 2


def test_what_all_exchange_is_in_the_order_of_ranks():
    def work(peers):
        first = peers.exchange(bytes([peers.rank]) * 3_000_000)
        return [bytes(one[:1]) for one in first], peers.exchange(b"")

    assert everywhere(3, work) == [([b"\0", b"\1", b"\2"], [b""] * 3)] * 3
    assert everywhere(1, lambda peers: peers.exchange(b"alone")) == [[b"alone"]]


def test_an_empty_message_is_a_message():
    def work(peers):
        peers.send(1 - peers.rank, b"")
        return bytes(peers.receive(1 - peers.rank))

    assert everywhere(2, work) == [b"", b""]


def test_who_never_flushes_keeps_nothing_of_what_was_sent():
    def work(peers):
        for _ in range(50):
            peers.send(1 - peers.rank, b"there")
            peers.receive(1 - peers.rank)
        return len(peers._pending)

    assert max(everywhere(2, work)) < 5


def test_what_could_not_be_sent_is_told_by_flush_also_after_further_sends():
    def work(peers):
        if peers.rank == 0:
            peers._sockets[1].shutdown(socket.SHUT_RDWR)
            peers.send(1, b"lost")
            peers.send(2, b"sent")
            peers.send(2, b"sent")
            with pytest.raises(OSError, match="Broken pipe"):
                peers.flush()
        elif peers.rank == 2:
            assert [peers.receive(0), peers.receive(0)] == [b"sent", b"sent"]

    everywhere(3, work)


def test_a_peer_that_is_gone_is_an_error():
    def work(peers):
        if peers.rank == 1:
            peers._sockets[0].close()
            return None
        return peers.receive(1)

    with pytest.raises(ConnectionError, match="closed"):
        everywhere(2, work)


def test_who_is_connected_to_all_finds_nobody_listening_any_more(monkeypatch):
    """Otherwise a peer could take a TensorFlow server at an address for a worker."""
    keep = Peers._keep

    def slowly(self, peer, connection):
        time.sleep(0.2 if self.rank == 0 else 0)
        keep(self, peer, connection)

    def work(peers):
        if peers.rank == 2:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(peers._sockets[0].getpeername())

    monkeypatch.setattr(Peers, "_keep", slowly)
    everywhere(3, work)


def test_a_peer_that_never_comes_is_an_error():
    with pytest.raises(TimeoutError):
        Peers(0, addresses(2), timeout_s=0.3)
    with pytest.raises(TimeoutError, match="did not come"):
        Peers(1, addresses(2), timeout_s=0.3)


def test_a_slow_link_is_no_stuck_peer():
    """The message arrives in small pieces and takes longer than a peer may be silent."""
    size, silence_s = 12_000_000, 1.0

    def work(peers):
        (other,) = {0, 1} - {peers.rank}
        if peers.rank == 0:
            peers.send(other, bytes(size))
            peers.flush()
            return True
        connection, got = peers._sockets[other], bytearray()
        while len(got) < size + LENGTH_BYTES:
            time.sleep(0.02)
            got += connection.recv(100_000)
        return True

    began = time.monotonic()
    assert everywhere(2, work, timeout_s=silence_s) == [True, True]
    assert time.monotonic() - began > 2 * silence_s

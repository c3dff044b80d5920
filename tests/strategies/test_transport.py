"""Messages between workers arrive whole and in order; a lost peer or a stranger is an error."""

import hashlib
import socket
import struct
import threading
import time

import numpy as np
import pytest

from everywhere import addresses, everywhere
from nodewise.cluster.api import parsed
from nodewise.strategies.transport import SHORT, Peers, _connected, reserve


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
            assert peers.receive(other, at_most=size) == bytes([place]) * size
        peers.flush()
        return len(peers._pending)

    assert everywhere(2, work) == [0, 0]


def test_what_all_exchange_is_in_the_order_of_ranks():
    def work(peers):
        first = peers.exchange(bytes([peers.rank]) * 3_000_000)  # larger than a socket's buffers
        return [bytes(one[:1]) for one in first], peers.exchange(b"")

    assert everywhere(3, work) == [([b"\0", b"\1", b"\2"], [b""] * 3)] * 3
    assert everywhere(1, lambda peers: peers.exchange(b"alone")) == [[b"alone"]]


@pytest.mark.parametrize(
    ("workers", "entries"),
    [(1, 5), (2, 1), (4, 2), (5, 0), (2, 1_000_000), (7, 300_001)],
)
def test_all_workers_get_the_same_sum(workers, entries):
    values = np.random.default_rng(1).normal(size=(workers, entries)).astype(np.float32)
    sums = everywhere(workers, lambda peers: peers.total(values[peers.rank]))
    for one in sums:
        np.testing.assert_allclose(one, values.sum(axis=0), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(one, sums[0])


def leave(peer):
    peer.close()


def announce(peer):
    peer.sendall(struct.pack(">Q", 2**40))


TOO_LONG = "1,099,511,627,776 bytes"


@pytest.mark.parametrize(
    ("does", "receive", "said"),
    [
        (leave, lambda peers: peers.receive(1), None),
        (leave, lambda peers: peers.total(np.zeros(3, np.float32)), None),
        (announce, lambda peers: peers.receive(1), TOO_LONG),
        (announce, lambda peers: peers.receive(1, SHORT - 1), TOO_LONG),
        (announce, lambda peers: peers.receive_array(1, 3), TOO_LONG),
    ],
)
def test_a_peer_that_is_gone_or_announces_too_much_is_an_error(does, receive, said):
    """A message that is too long is refused before memory is allocated."""
    with pytest.raises(ConnectionError, match=said):
        everywhere(2, lambda peers: does(peers._sockets[0]) if peers.rank else receive(peers))


OURS = "ours"


def hello(token: str, rank: int) -> bytes:
    return hashlib.sha256(token.encode()).digest() + struct.pack(">I", rank)


STRANGERS = [b"GET / HTTP/1.1" * 4, hello("theirs", 1)]


def errors_after(*messages, within_s=20.0):
    """Send each message to rank 0 of 2 on a connection of its own; return the errors of rank 0."""
    (address, other), errors = addresses(2), []

    def listen():
        try:
            Peers(0, [address, other], token=OURS)
        except OSError as error:
            errors.append(error)

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    for message in messages:
        _connected(parsed(address)).sendall(message)
    thread.join(within_s)
    return errors


@pytest.mark.parametrize("rank", [0, 2])
def test_connections_of_another_job_are_not_taken_and_a_wrong_rank_is_an_error(rank):
    """The wrong rank after them is an error, so the process has read all of them."""
    assert errors_after(*STRANGERS, within_s=0.5) == []
    (error,) = errors_after(*STRANGERS, hello(OURS, rank))
    assert isinstance(error, ConnectionError)
    assert f"rank {rank}" in str(error)


def test_a_port_stays_reserved_until_this_process_listens_on_it():
    kept = reserve(("127.0.0.1", 0))
    address = kept.getsockname()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(address)
    with socket.create_server(address):
        socket.create_connection(address).close()

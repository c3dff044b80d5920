"""Messages between places arrive whole and in order; who is gone or stuck is an error."""

import socket
import threading

import numpy as np
import pytest

from nodewise.strategies.peers import Peers


def addresses(count):
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [f"127.0.0.1:{one.getsockname()[1]}" for one in taken]
    for one in taken:
        one.close()
    return found


def everywhere(count, work):
    """Run `work(peers)` at every place; return what each returned, by rank."""
    where, results, errors = addresses(count), [None] * count, []

    def run(rank):
        try:
            results[rank] = work(Peers(rank, where, timeout_s=5))
        except Exception as error:  # shown to the test, whose thread this is not
            errors.append(error)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    if errors:
        raise errors[0]
    return results


def test_everybody_can_send_large_messages_to_everybody_at_once():
    size = 3_000_000  # more than any socket takes unread

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


def test_an_empty_message_is_a_message():
    def work(peers):
        peers.send(1 - peers.rank, b"")
        return bytes(peers.receive(1 - peers.rank))

    assert everywhere(2, work) == [b"", b""]


def test_a_peer_that_is_gone_is_an_error():
    def work(peers):
        if peers.rank == 1:
            peers._sockets[0].close()
            return None
        return peers.receive(1)

    with pytest.raises(ConnectionError, match="closed"):
        everywhere(2, work)


def test_a_peer_that_never_comes_is_an_error():
    with pytest.raises(TimeoutError):
        Peers(0, addresses(2), timeout_s=0.3)
    with pytest.raises(TimeoutError, match="did not come"):
        Peers(1, addresses(2), timeout_s=0.3)

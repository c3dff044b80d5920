"""MPI ranks find each other through PMI-1 messages, as the MPI library would send them."""

import os
import queue
import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everywhere import everywhere
from nodewise.strategies.mpi import pmi
from nodewise.strategies.transport import Peers

WORDS = st.text(st.characters(codec="ascii", exclude_categories=("Z", "C")), min_size=1)


class Nobody:
    """The peers of a job with a single rank."""

    rank, size = 0, 1

    def exchange(self, message):
        return [message]


def put(space, key, value):
    assert space.answer(f"cmd=put kvsname=job key={key} value={value}").startswith("cmd=put_result")


def get(space, key):
    said = dict(
        word.split("=", 1) for word in space.answer(f"cmd=get kvsname=job key={key}").split()
    )
    return said.get("value") if said["rc"] == "0" else None


def test_what_every_rank_put_all_can_get_after_the_barrier():
    def work(peers):
        space = pmi.Space(peers)
        for turn in ("first", "second"):
            put(space, f"{turn}{peers.rank}", f"at-{peers.rank}")
            others = [rank for rank in range(peers.size) if rank != peers.rank]
            assert [get(space, f"{turn}{rank}") for rank in others] == [None] * len(others)
            assert space.answer("cmd=barrier_in") == "cmd=barrier_out rc=0"
        return [get(space, f"{turn}{rank}") for turn in ("first", "second") for rank in range(3)]

    assert everywhere(3, work) == [["at-0", "at-1", "at-2"] * 2] * 3


@given(WORDS.filter(lambda word: "=" not in word), WORDS)
def test_any_word_is_a_value(key, value):
    space = pmi.Space(Nobody())
    put(space, key, value)
    space.answer("cmd=barrier_in")
    assert get(space, key) == value


def test_every_rank_is_on_a_node_of_its_own():
    """Otherwise MPICH would use shared memory between its ranks instead of the network."""

    def work(peers):
        return get(pmi.Space(peers), "PMI_process_mapping")

    assert everywhere(3, work) == ["(vector,(0,3,1))"] * 3


def test_all_ranks_of_a_launch_give_it_one_name_and_no_other_launch_has_it():
    """MPICH uses this name for shared memory in a folder that the whole machine shares."""

    def work(peers):
        return [pmi.Space(peers).answer("cmd=get_my_kvsname") for _ in range(2)]

    first, *others = everywhere(3, work)
    assert others == [first] * 2
    assert len(set(first)) == 2


def test_a_barrier_without_a_peer_is_an_error():
    def work(peers):
        space = pmi.Space(peers)
        if peers.rank == 1:  # This peer connects and ends.
            return None
        with pytest.raises(ConnectionError):
            space.answer("cmd=barrier_in")
        return "told"

    assert everywhere(2, work) == ["told", None]


@pytest.mark.parametrize("line", ["", "cmd", "cmd=spawn nprocs=2", "cmd=get"])
def test_a_line_that_is_not_known_is_an_error(line):
    with pytest.raises(ValueError, match="not known"):
        pmi.Space(Nobody()).answer(line)


def test_the_library_is_answered_over_the_descriptor_it_inherits(monkeypatch):
    for name in ("PMI_FD", "PMI_RANK", "PMI_SIZE"):
        monkeypatch.setenv(name, "")
    pmi.manage(Peers(0, ["127.0.0.1:0"]))
    assert (os.environ["PMI_RANK"], os.environ["PMI_SIZE"]) == ("0", "1")
    with socket.socket(fileno=int(os.environ["PMI_FD"])) as library:
        library.settimeout(5)
        stream = library.makefile("rw", newline="\n")
        for said, answered in (
            ("cmd=init pmi_version=1 pmi_subversion=1", "cmd=response_to_init "),
            ("cmd=get_maxes", "cmd=maxes "),
            ("cmd=get_my_kvsname", "cmd=my_kvsname kvsname=job~"),
            ("cmd=barrier_in", "cmd=barrier_out "),
            ("cmd=finalize", "cmd=finalize_ack "),
        ):
            stream.write(said + "\n")
            stream.flush()
            assert stream.readline().startswith(answered)


def test_the_line_of_the_library_is_cut_where_it_cannot_be_answered(monkeypatch):
    """If the connection stayed open, the library would wait forever for an answer."""
    told = queue.Queue()
    monkeypatch.setattr(threading, "excepthook", lambda failed: told.put(failed.exc_type))
    for name in ("PMI_FD", "PMI_RANK", "PMI_SIZE"):
        monkeypatch.setenv(name, "")
    pmi.manage(Peers(0, ["127.0.0.1:0"]))
    with socket.socket(fileno=int(os.environ["PMI_FD"])) as library:
        library.settimeout(5)
        library.sendall(b"cmd=spawn\n")
        assert library.recv(100) == b""
    assert told.get(timeout=5) is ValueError

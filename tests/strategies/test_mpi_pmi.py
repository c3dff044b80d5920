"""MPI ranks find each other through PMI-1 messages, as the MPI library would send them."""

import os
import socket

from everywhere import everywhere
from nodewise.strategies.mpi import pmi
from nodewise.strategies.transport import Peers


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
        # one node each, so that MPICH uses the network and no shared memory
        assert get(space, "PMI_process_mapping") == "(vector,(0,3,1))"
        for turn in ("first", "second"):
            put(space, f"{turn}{peers.rank}", f"at-{peers.rank}")
            others = [rank for rank in range(peers.size) if rank != peers.rank]
            assert [get(space, f"{turn}{rank}") for rank in others] == [None] * len(others)
            assert space.answer("cmd=barrier_in") == "cmd=barrier_out rc=0"
        return [get(space, f"{turn}{rank}") for turn in ("first", "second") for rank in range(3)]

    assert everywhere(3, work) == [["at-0", "at-1", "at-2"] * 2] * 3


def test_all_ranks_of_a_launch_give_it_one_name_and_no_other_launch_has_it():
    """MPICH uses this name for shared memory in a folder that the whole machine shares."""

    def work(peers):
        return [pmi.Space(peers).answer("cmd=get_my_kvsname") for _ in range(2)]

    first, *others = everywhere(3, work)
    assert others == [first] * 2
    assert len(set(first)) == 2


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

"""A process manager for MPICH's ranks, which are started without MPICH's launcher, mpiexec.

MPICH talks to its process manager over an inherited file descriptor, in lines such as `cmd=get
kvsname=job key=address0` (PMI-1, MPICH's process management interface). Here the manager is a
thread in the rank's own process, which exchanges the keys and values of all ranks with its peers.
Without a manager, ranks would have to meet by MPI_Comm_connect, which fails in MPICH 5.0:
https://github.com/pmodels/mpich/issues/7805
"""

import json
import os
import secrets
import socket
import threading

from nodewise.strategies.transport import Peers

_ANSWERS = {
    "init": "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
    # the longest names, keys and values; the library splits longer values
    "get_maxes": "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024 rc=0",
    "get_appnum": "cmd=appnum appnum=0 rc=0",
    "put": "cmd=put_result rc=0 msg=success",
    "barrier_in": "cmd=barrier_out rc=0",
    "finalize": "cmd=finalize_ack rc=0",
}


class Space:
    """The keys and values of a job, as one rank knows them. Creating it is collective.

    MPICH derives machine-wide names from the job's name, so that name is unique to this launch.

    Raises:
        OSError: a peer is gone.
    """

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._name = f"job~{peers.exchange(secrets.token_hex(8).encode())[0].decode()}"
        # in PMI's notation: `size` nodes with one process each, starting at node 0
        self._known = {"PMI_process_mapping": f"(vector,(0,{peers.size},1))"}
        self._put: dict[str, str] = {}

    def answer(self, line: str) -> str:
        """Return the answer to one line from the library, without a line ending.

        A barrier is answered when all ranks have reached it. All values put before it are then
        known.

        Raises:
            ValueError: the line is not a request that MPICH makes when it starts.
            OSError: a peer is gone.
        """
        request = dict(word.partition("=")[::2] for word in line.split())
        match request:
            case {"cmd": "get", "key": key}:
                if key in self._known:
                    return f"cmd=get_result rc=0 msg=success value={self._known[key]}"
                return "cmd=get_result rc=-1 msg=key_not_found"
            case {"cmd": "get_my_kvsname"}:
                return f"cmd=my_kvsname kvsname={self._name} rc=0"
            case {"cmd": "put", "key": key, "value": value}:
                self._put[key] = value
            case {"cmd": "barrier_in"}:
                for put in self._peers.exchange(json.dumps(self._put).encode()):
                    self._known |= json.loads(put)
                self._put = {}
        if request.get("cmd") not in _ANSWERS:
            raise ValueError(f"not known of PMI-1: {line!r}")
        return _ANSWERS[request["cmd"]]


def manage(peers: Peers) -> None:
    """Start a thread that answers the MPI library, which this process is about to initialise.

    Collective. From now on only that thread may use `peers`. If it fails, the library's connection
    to it is closed.

    Raises:
        OSError: a peer is gone.
    """
    space = Space(peers)
    library, manager = socket.socketpair()
    os.environ |= {
        "PMI_FD": str(library.detach()),
        "PMI_RANK": str(peers.rank),
        "PMI_SIZE": str(peers.size),
    }
    threading.Thread(target=_answer_all, args=(manager, space), daemon=True).start()


def _answer_all(manager: socket.socket, space: Space) -> None:
    with manager, manager.makefile("rw", encoding="ascii", newline="\n") as stream:
        for line in stream:
            stream.write(space.answer(line) + "\n")
            stream.flush()

"""A cell's servers cannot be reached from outside: its processes run in a private network."""

import os

import pytest

import projects

CODE = """
import ctypes, encodings.idna, fcntl, os, pathlib, socket, sys
from nodewise.cluster.namespace import enter_private_network
from nodewise.measure.traffic import traffic

if len(sys.argv) > 1:
    os.setgroups([])
    os.setgid(int(sys.argv[1]))
    os.setuid(int(sys.argv[1]))
    PR_SET_DUMPABLE = 4  # a process that changed its user may not write its own /proc files
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1)
outside = os.readlink("/proc/self/ns/net")
enter_private_network()
assert os.readlink("/proc/self/ns/net") != outside
lines = pathlib.Path("/proc/self/net/dev").read_text().splitlines()[2:]
assert [line.split(":")[0].strip() for line in lines] == ["lo"], lines

server = socket.create_server(("0.0.0.0", 2222))
client = socket.create_connection(("127.0.0.1", 2222))
peer, _ = server.accept()
before = traffic()
client.sendall(b"x" * 1000)
peer.sendall(b"y" * 234)
received = b""
while len(received) < 1000:
    received += peer.recv(1000)
assert len(client.recv(234, socket.MSG_WAITALL)) == 234
after = traffic()
assert (after.sent - before.sent, after.received - before.received) == (1234, 1234)
print("fine", os.getuid())
"""


def test_the_network_is_private_and_its_bytes_are_counted():
    assert projects.python("-c", CODE) == f"fine {os.getuid()}\n"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can try what another user may do")
def test_an_ordinary_user_gets_one_too():
    """Inside the namespace the user is root; the right to enter it survives an exec."""
    assert projects.python("-c", CODE, 65534) == "fine 0\n"

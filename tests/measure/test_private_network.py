"""A cell's servers cannot be reached from outside: its processes run in a private network."""

import projects

CODE = """
import os, pathlib, socket
from nodewise.cluster.namespace import enter_private_network
from nodewise.measure.traffic import traffic

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
"""


def test_the_network_is_private_and_its_bytes_are_counted():
    projects.python("-c", CODE)

"""A cell's processes are in a private network, and they keep memory that a step frees."""

import projects

SETTLED = """
import subprocess, sys
from nodewise.measure.environment import settle_environment
settle_environment()
subprocess.run([sys.executable, "-c", sys.argv[1]], check=True)
"""
COUNT = """
import ctypes, resource
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
def step():
    buffers = [libc.malloc(ctypes.c_size_t(2**25 + 4096 * i)) for i in range(4)]
    for buffer in buffers:
        ctypes.memset(buffer, 1, 2**25)
    for buffer in buffers:
        libc.free(buffer)
step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_the_pages_of_a_step_are_those_of_the_step_before():
    assert int(projects.python("-c", SETTLED, COUNT)) < 4 * 2**25 / 4096 / 100


PRIVATE = """
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
    projects.python("-c", PRIVATE)

"""Run as a script: nodes that have links and nothing else; prints its observations as JSON.

python links_job.py transfer       send 5 MB from node 0 to node 1; what the links counted
python links_job.py flood          nodes 0 and 1 send more to node 2 than slow links can carry
python links_job.py latency MS     round-trip time of a byte between two nodes
python links_job.py refused        the reason why no private network is permitted, or null
python links_job.py shared         whether two processes talk, in a private network or not
"""

import json
import os
import socket
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from nodewise.cluster import links, namespace, process
from nodewise.core.errors import RefusedError

MEGABYTES = 5
FLOOD_S = 1.0


def nodes(count, work, rate_mbit=100.0, latency_ms=0.0):
    """Run `work(rank, channel)` on `count` connected nodes; return results and link counters."""
    use = []

    def met(name, pids):
        if name == "placed":
            links.lay(pids)
            links.limit(count, rate_mbit, latency_ms)
        elif name == "done":
            use.extend(found._asdict() for found in links.counters(count))
        return False

    namespace.enter_private_network()
    with tempfile.TemporaryDirectory() as logs:
        on_each = partial(on_node, work=work, rate_mbit=rate_mbit)
        job = process.Job(count, on_each, logs=Path(logs), time_limit_s=60)
        job.on_meeting = met
        results = job.run()
    return {"results": results, "use": use}


def on_node(rank, channel, *, work, rate_mbit):
    namespace.enter_network_namespace()
    channel.meet("placed")
    links.plug_in(links.address(rank))
    links.limit_node(rate_mbit)
    channel.meet("plugged in")
    result = work(rank, channel)
    channel.meet("done")
    return result


def transfer():
    return nodes(2, stream)


def stream(rank, channel):
    size = MEGABYTES * 1_000_000
    if rank == 0:
        channel.meet("listening")
        with socket.create_connection((links.address(1), 5000)) as connection:
            connection.sendall(bytes(size))
            return {"end": connection.recv(1).decode()}
    with socket.create_server((links.address(1), 5000)) as server:
        channel.meet("listening")
        connection, _ = server.accept()
        with connection:
            while size:
                size -= len(connection.recv(1 << 20))
            connection.sendall(b"!")
    return {}


def flood():
    return nodes(3, send_too_much, rate_mbit=1)


def send_too_much(rank, channel):
    if rank < 2:
        # One socket alone would only wait: what it may have in flight fits into the link's queue.
        sockets = [socket.socket(type=socket.SOCK_DGRAM) for _ in range(8)]
        for one in sockets:
            one.setblocking(False)
        until = time.monotonic() + FLOOD_S
        while time.monotonic() < until:
            for one in sockets:
                try:
                    one.sendto(bytes(1400), (links.address(2), 9))
                except BlockingIOError:
                    continue
    return {}


def latency():
    try:
        return nodes(2, exchange_bytes, latency_ms=float(sys.argv[2]))
    except RefusedError as error:
        return {"refused": error.reason}


def exchange_bytes(rank, channel):
    if rank == 0:
        channel.meet("listening")
        trips = []
        with socket.create_connection((links.address(1), 5000)) as connection:
            for _ in range(20):
                started = time.perf_counter()
                connection.sendall(b"?")
                connection.recv(1)
                trips.append(time.perf_counter() - started)
        return {"round_trip_ms": 1000 * statistics.median(trips)}
    with socket.create_server((links.address(1), 5000)) as server:
        channel.meet("listening")
        connection, _ = server.accept()
        with connection:
            while connection.recv(1):
                connection.sendall(b"!")
    return {}


def refused():
    try:
        namespace.enter_network()
    except RefusedError as error:
        return {"reason": error.reason, "command": error.command}
    return None


def shared():
    private = namespace.enter_network()
    (port,) = namespace.free_ports(1)
    with socket.create_server(("127.0.0.1", port)) as server:
        if os.fork() == 0:
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(b"hello")
            os._exit(0)
        connection, _ = server.accept()
        with connection:
            heard = connection.recv(5, socket.MSG_WAITALL).decode()
        os.wait()
    return {"private": private, "heard": heard}


WORK = (transfer, flood, latency, refused, shared)

if __name__ == "__main__":
    print(json.dumps({work.__name__: work for work in WORK}[sys.argv[1]]()))

"""Run as a script: a job without TensorFlow on emulated nodes; prints observations as JSON.

python node_job.py WHAT LOGS

Works of nodes, of which those named by `use` print what the cluster counted when they were done:

    share       CPU share of a busy worker, unlimited and limited (use)
    straggler   the same, with node 1 limited to a twentieth of a core (use)
    machines    send 5 MB between workers of one machine, and of two; each machine has two
    transfer    send 5 MB from node 0 to node 1 (use)
    flood       nodes 0 and 1 send more to node 2 than slow links can carry (use)
    latency     round-trip time of a byte between two nodes, over links with latency
    vanish      worker 1 is killed in a meeting; its link vanishes with it
    sleep       print a line on stdout, then sleep until the job is ended

Works without nodes:

    refused     the reason why no private network is permitted, or null
    shared      whether two processes talk, in a private network or not
    look        what `nodewise doctor` finds
"""

import json
import os
import signal
import socket
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute

from nodewise.cluster import doctor, links, namespace, process
from nodewise.cluster.channel import Channel, Message
from nodewise.cluster.emulated import EmulatedNodes
from nodewise.cluster.kinds.emulated import Emulated, Link, Node, SlowNode
from nodewise.core.errors import RefusedError

MEGABYTES, LATENCY_MS, FLOOD_S, BUSY_S = 5, 20, 1.0, 2.0
INSIDE = 2  # workers in each machine

NODE, LINK = Node(cpu=0.2), Link(rate_mbit=100)
SETTINGS = {
    "straggler": Emulated(node=NODE, link=LINK, slow_node=SlowNode(rank=1, cpu=0.05)),
    "machines": Emulated(node=NODE, link=LINK, devices_per_node=INSIDE),
    "flood": Emulated(node=NODE, link=Link(rate_mbit=1)),
    "latency": Emulated(node=NODE, link=Link(rate_mbit=100, latency_ms=LATENCY_MS)),
}
COUNTS = {"machines": 2 * INSIDE, "flood": 3}


def run(what: str, logs: Path) -> Any:
    count = COUNTS.get(what, 2)
    cluster = EmulatedNodes(count, SETTINGS.get(what, Emulated(node=NODE, link=LINK)))
    counted = []

    def met(name: str, pids: list[int]) -> None:
        if name == "placed":
            cluster.connect(pids)
        elif name == "limited":
            cluster.apply_limits()
        elif name == "sent":
            counted.extend(left_machine(machine) for machine in range(count // INSIDE))
        elif name == "count":
            counted.extend(node.model_dump() for node in cluster.usage())
        elif name == "vanishing":
            os.kill(pids[1], signal.SIGKILL)
            while True:
                cluster.usage()
        elif name == "asleep":
            print("asleep", flush=True)

    with cluster.open():
        work = partial(on_node, cluster=cluster, what=what)
        job = process.Job(count, work, logs=logs, time_limit_s=60)
        job.on_meeting = met
        try:
            return {"nodes": job.run(), "counted": counted}
        except RefusedError as error:
            return {"refused": error.reason}


def left_machine(machine: int) -> int:
    """Return how many bytes have left an emulated machine with several workers."""
    with IPRoute() as here:
        (index,) = here.link_lookup(ifname=f"out{machine}")
        return here.get_links(index)[0].get_attr("IFLA_STATS64")["tx_bytes"]


def on_node(rank: int, channel: Channel, *, cluster: EmulatedNodes, what: str) -> Message:
    cluster.enter_node(rank)
    channel.meet("placed")
    cluster.join(rank)
    cluster.limit_link(rank)
    return {"kind": cluster.kind, "network": cluster.network} | WORK[what](rank, channel)


def share(rank: int, channel: Channel) -> Message:
    free = busy_share()
    channel.meet("limited")
    held = busy_share()
    channel.meet("count")
    return {"free": free, "held": held}


def busy_share() -> float:
    started, cpu = time.perf_counter(), time.process_time()
    while time.perf_counter() - started < BUSY_S:
        pass
    return (time.process_time() - cpu) / (time.perf_counter() - started)


@contextmanager
def connected(rank: int, to: int, channel: Channel) -> Iterator[socket.socket | None]:
    """Connect node 0 with node `to`; yield the connection, or None on other nodes."""
    address = (links.address(to), 5000 + to)
    if rank == to:
        with socket.create_server(address) as server:
            channel.meet("listening")
            connection, _ = server.accept()
    else:
        channel.meet("listening")
        connection = socket.create_connection(address) if rank == 0 else None
    yield connection
    if connection:
        connection.close()


def stream(rank: int, to: int, channel: Channel) -> float:
    """Send from worker 0; return how many seconds worker `to` took to receive, else 0."""
    size, seconds = MEGABYTES * 1_000_000, 0.0
    with connected(rank, to, channel) as connection:
        if rank == 0:
            connection.sendall(bytes(size))
        elif rank == to:
            size -= len(connection.recv(1))
            started = time.perf_counter()
            while size:
                size -= len(connection.recv(1 << 20))
            seconds = time.perf_counter() - started
    return seconds


def machines(rank: int, channel: Channel) -> Message:
    """Send from worker 0 to its neighbour, then to a worker in the other machine."""
    channel.meet("limited")
    inside = stream(rank, 1, channel)
    channel.meet("sent")
    between = stream(rank, 2, channel)
    channel.meet("sent")
    return {"inside": inside, "between": between}


def transfer(rank: int, channel: Channel) -> Message:
    channel.meet("limited")
    stream(rank, 1, channel)
    channel.meet("count")
    return {}


def flood(rank: int, channel: Channel) -> Message:
    channel.meet("limited")
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
    channel.meet("count")
    return {}


def latency(rank: int, channel: Channel) -> Message:
    channel.meet("limited")
    trips = []
    with connected(rank, 1, channel) as connection:
        for _ in range(20):
            started = time.perf_counter()
            if rank == 0:
                connection.sendall(b"?")
            connection.recv(1)
            if rank == 1:
                connection.sendall(b"!")
            trips.append(time.perf_counter() - started)
    return {"round_trip_ms": 1000 * statistics.median(trips)}


def vanish(rank: int, channel: Channel) -> Message:
    channel.meet("vanishing")
    return {}


def sleep(rank: int, channel: Channel) -> Message:
    channel.meet("limited")
    channel.meet("asleep")
    time.sleep(60)
    return {}


WORKS = (share, machines, transfer, flood, latency, vanish, sleep)
WORK = {work.__name__: work for work in WORKS} | {"straggler": share}


def refused() -> Any:
    try:
        namespace.enter_network()
    except RefusedError as error:
        return {"reason": error.reason, "command": error.command}
    return None


def shared() -> Any:
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


def look() -> Any:
    return {kind: check._asdict() for kind, check in doctor.look().items()}


ALONE = {"refused": refused, "shared": shared, "look": look}

if __name__ == "__main__":
    # A shell starts background jobs with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    asked, folder = sys.argv[1:]
    print(json.dumps(ALONE[asked]() if asked in ALONE else run(asked, Path(folder))))

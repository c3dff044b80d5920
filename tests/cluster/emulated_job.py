"""Run as a script: a job without TensorFlow on two emulated nodes; prints observations as JSON.

python emulated_job.py share LOGS      CPU share of a busy worker, unlimited and limited
python emulated_job.py straggler LOGS  the same, with node 1 limited to a tenth of a core
python emulated_job.py machines LOGS   the same, with two workers in each of two machines
python emulated_job.py vanish LOGS     worker 1 is killed in a meeting; its link vanishes with it
python emulated_job.py sleep LOGS      print a line on stdout, then sleep until the job is ended
"""

import json
import os
import signal
import socket
import sys
import time
from functools import partial
from pathlib import Path

from pyroute2 import IPRoute

from nodewise.cluster import process
from nodewise.cluster.channel import Channel, Message
from nodewise.cluster.emulated import Emulated as Cluster
from nodewise.cluster.kinds.emulated import Emulated, Link, Node, SlowNode

NODES, MEGABYTES = 2, 5
INSIDE = 2  # workers in each machine


def main(what: str) -> None:
    slow = SlowNode(rank=1, cpu=0.1) if what == "straggler" else None
    inside = INSIDE if what == "machines" else 1
    settings = Emulated(
        node=Node(cpu=0.2), link=Link(rate_mbit=100), slow_node=slow, devices_per_node=inside
    )
    cluster = Cluster(NODES * inside, settings)
    sent = []

    def met(name: str, pids: list[int]) -> None:
        if name == "placed":
            cluster.connect(pids)
        elif name == "throttled":
            cluster.apply_limits()
        elif name == "sent" and inside > 1:
            sent.extend(left_machine(node) for node in range(NODES))
        elif name == "vanishing":
            os.kill(pids[1], signal.SIGKILL)
            while True:
                cluster.usage()
        elif name == "asleep":
            print("asleep", flush=True)

    with cluster.open():
        work = partial(on_node, cluster=cluster, what=what)
        job = process.Job(NODES * inside, work, logs=Path(sys.argv[2]), time_limit_s=60)
        job.on_meeting = met
        results = job.run()
    print(json.dumps([*results, sent] if sent else results))


def left_machine(node: int) -> int:
    """Return how many bytes have left an emulated machine with several workers."""
    with IPRoute() as links:
        (index,) = links.link_lookup(ifname=f"out{node}")
        return links.get_links(index)[0].get_attr("IFLA_STATS64")["tx_bytes"]


def on_node(rank: int, channel: Channel, *, cluster: Cluster, what: str) -> Message:
    cluster.enter_node(rank)
    channel.meet("placed")
    cluster.join(rank)
    cluster.limit_link(rank)
    return {"kind": cluster.kind, "network": cluster.network} | WORK[what](rank, channel)


def share(rank: int, channel: Channel) -> Message:
    free = busy_share()
    channel.meet("throttled")
    return {"free": free, "held": busy_share()}


def busy_share() -> float:
    started, cpu = time.perf_counter(), time.process_time()
    while time.perf_counter() - started < 2:
        pass
    return (time.process_time() - cpu) / (time.perf_counter() - started)


def machines(rank: int, channel: Channel) -> Message:
    """Send from worker 0 to its neighbour, then to a worker in the other machine."""
    channel.meet("throttled")
    return {"inside": stream(rank, 1, channel), "between": stream(rank, 2, channel)}


def stream(rank: int, to: int, channel: Channel) -> float:
    """Send from worker 0; return how many seconds worker `to` took to receive, else 0."""
    address, seconds = (f"10.77.0.{to + 1}", 5000 + to), 0.0
    if rank == to:
        with socket.create_server(address) as server:
            channel.meet("listening")
            connection, _ = server.accept()
            with connection:
                left = MEGABYTES * 1_000_000 - len(connection.recv(1))
                started = time.perf_counter()
                while left:
                    left -= len(connection.recv(1 << 20))
                seconds = time.perf_counter() - started
    else:
        channel.meet("listening")
        if rank == 0:
            with socket.create_connection(address) as connection:
                connection.sendall(bytes(MEGABYTES * 1_000_000))
    channel.meet("sent")
    return seconds


def vanish(rank: int, channel: Channel) -> Message:
    channel.meet("vanishing")
    return {}


def sleep(rank: int, channel: Channel) -> Message:
    channel.meet("throttled")
    channel.meet("asleep")
    time.sleep(60)
    return {}


WORK = {
    **{"share": share, "straggler": share},
    "machines": machines,
    **{"vanish": vanish, "sleep": sleep},
}

if __name__ == "__main__":
    # A shell starts background jobs with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main(sys.argv[1])

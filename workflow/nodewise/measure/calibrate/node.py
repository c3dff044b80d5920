"""What one worker of a calibration does. Imports TensorFlow."""

import socket
import statistics
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from nodewise.cluster.api import Cluster, parsed
from nodewise.cluster.channel import Channel, Message
from nodewise.measure.calibrate.plan import Block, Plan
from nodewise.measure.node import start_in_node
from nodewise.measure.traffic import traffic
from nodewise.strategies.ring import Ring
from nodewise.strategies.transport import Direct, Peers

_PORT = 2999  # of emulated nodes, beside those of the workers' servers
_ROUND_TRIPS, _ROUND_TRIPS_S = 100, 0.5
_PING, _ENOUGH = b"?", b"."
_CHUNK = 1 << 18
_UNTIMED_SHARE = 0.1  # of a stream: TCP finds its pace, and the first burst is not held to the rate
_ETHERNET_HEADER = 14
_IP_MTU = 14  # of linux/in.h: the largest IP packet to this peer, in bytes
_WARM_UPS = 3


def measure_node(plan: Plan, cluster: Cluster, rank: int, channel: Channel) -> Message:
    """Measure what `plan` asks for as worker `rank`; return this worker's part.

    Meets the other workers in its node ("placed"), before anything is measured ("warm"), when
    node 1 listens ("listening") and after all ("timed"). Rank 0 sends `{"progress": share}`.
    """
    start_in_node(cluster, rank, channel, plan.nodes)
    collectives = _Collectives(plan, cluster, rank) if plan.blocks else None
    cluster.limit_link(rank)
    channel.meet("warm")
    result: Message = {"busy": _busy(plan.busy_s), "transfer": None, "all_reduces": []}
    if plan.transfer_bytes:
        result["transfer"] = _transfer(cluster, rank, channel, plan.transfer_bytes)
    if collectives is not None:
        collectives.warm_up()
        done = plan.expected_s - sum(block.expected_s for block in plan.blocks)
        for block in plan.blocks:
            result["all_reduces"].append(collectives.time(block))
            done += block.expected_s
            if rank == 0:
                channel.send({"progress": done / plan.expected_s})
    channel.meet("timed")
    return result


class _Collectives:
    """The all-reduces of strategies; the ring is traced once for all payloads.

    All are tried once: a trace made later, or memory and windows of TCP that grow later, would be
    timed with the first all-reduce.
    """

    def __init__(self, plan: Plan, cluster: Cluster, rank: int) -> None:
        self._nodes = plan.nodes
        peers = Peers(rank, cluster.addresses()[: plan.nodes], timeout_s=plan.time_limit_s)
        self._ring = Ring()
        signature = [tf.TensorSpec([None], tf.float32)]
        ring = tf.function(self._ring.sum, input_signature=signature, autograph=False)
        self._all_reduces: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
            "ring": ring,
            "direct": Direct(peers).all_reduce,
        }
        self._first = {block.collective: block for block in reversed(plan.blocks)}
        for block in plan.blocks:
            self._ring.barrier()
            self._all_reduces[block.collective](_ones(block))

    def warm_up(self) -> None:
        """Get used to a new speed."""
        for block in self._first.values():
            for _ in range(_WARM_UPS):
                self._ring.barrier()
                self._all_reduces[block.collective](_ones(block))

    def time(self, block: Block) -> Message:
        """Run a block. Its times are those of the one clock that all workers of a machine share.

        Raises:
            ArithmeticError: a sum is wrong.
        """
        ones, all_reduce = _ones(block), self._all_reduces[block.collective]
        self._ring.barrier()
        sent, started = traffic().sent, time.monotonic()
        for _ in range(block.repeats):
            total = all_reduce(ones)
        ended = time.monotonic()
        self._ring.barrier()  # a worker may have its sum before the last of its bytes has left
        sent = traffic().sent - sent
        if not (np.asarray(total) == self._nodes).all():
            raise ArithmeticError(f"the sum over {self._nodes} nodes is wrong")
        return {"started": started, "ended": ended, "bytes_sent": sent}


def _ones(block: Block) -> tf.Tensor:
    """Return ones as the collective takes them without a copy: a tensor, or an array."""
    ones = np.ones(block.payload_bytes // 4, np.float32)
    return tf.constant(ones) if block.collective == "ring" else ones


def _busy(seconds: float) -> Message:
    """Compute for `seconds` on the wall; return the CPU time that was had."""
    cpu, started = time.process_time(), time.perf_counter()
    while time.perf_counter() - started < seconds:
        pass
    return {"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - started}


def _transfer(cluster: Cluster, rank: int, channel: Channel, size: int) -> Message | None:
    """Stream `size` bytes from node 0 to node 1; return what node 1 saw, None on node 0."""
    address = _stream_address(cluster)
    if rank == 0:
        channel.meet("listening")
        with socket.create_connection(address) as connection:
            _send_back(connection)
            for _ in range(-(-size // _CHUNK)):
                connection.sendall(bytes(_CHUNK))
        return None
    with socket.create_server(address) as server:
        channel.meet("listening")
        connection, _ = server.accept()
    with connection:
        round_trip_s = _round_trip_s(connection)
        _receive(connection, round(_UNTIMED_SHARE * size))
        started = time.perf_counter()
        received = _receive(connection, round((1 - _UNTIMED_SHARE) * size))
        seconds = time.perf_counter() - started
        segment = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
        packet = connection.getsockopt(socket.IPPROTO_IP, _IP_MTU)
        _receive(connection, _CHUNK + size)  # to the end, or the sender would be cut off
    return {
        "payload_bytes": received,
        "seconds": seconds,
        "segment_bytes": segment,
        "frame_bytes": packet + _ETHERNET_HEADER,
        "round_trip_s": round_trip_s,
    }


def _stream_address(cluster: Cluster) -> tuple[str, int]:
    """Return where node 1 listens for a stream.

    Hosts have a port each of those that are allowed: node 1 does not use that of node 0.
    """
    (_, other), (host, own) = (parsed(address) for address in cluster.addresses()[:2])
    return host, _PORT if other == own else other


def _round_trip_s(connection: socket.socket) -> float:
    """Return the median seconds of a byte to the other side and back."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    times: list[float] = []
    while not times or (len(times) < _ROUND_TRIPS and sum(times) < _ROUND_TRIPS_S):
        started = time.perf_counter()
        connection.sendall(_PING)
        _receive(connection, 1)
        times.append(time.perf_counter() - started)
    connection.sendall(_ENOUGH)
    return statistics.median(times)


def _send_back(connection: socket.socket) -> None:
    """Be the other side of `_round_trip_s`."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while connection.recv(1) == _PING:
        connection.sendall(_PING)


def _receive(connection: socket.socket, least: int) -> int:
    """Receive `least` bytes or a little more, fewer only if the stream ends; return how many."""
    received = 0
    while received < least and (chunk := connection.recv(_CHUNK)):
        received += len(chunk)
    return received

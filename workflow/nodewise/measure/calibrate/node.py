"""What one worker of a calibration does. Imports TensorFlow."""

import math
import socket
import statistics
import time
from collections.abc import Callable
from contextlib import suppress

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

    Meets the other workers in its node ("placed"), before anything is measured ("warm"), when the
    receiver of a stream listens ("listening") and after all ("timed"). Rank 0 sends
    `{"progress": share}`.
    """
    start_in_node(cluster, rank, channel, plan.nodes)
    collectives = _Collectives(plan, cluster, rank) if plan.blocks else None
    cluster.limit_link(rank)
    channel.meet("warm")
    result: Message = {"busy": _busy(plan.busy_s), "streams": [], "all_reduces": []}
    for done, pair in enumerate(plan.pairs, 1):
        result["streams"].append(_stream(plan, pair, cluster, rank, channel))
        if rank == 0:
            channel.send({"progress": plan.share_done(done)})
    if collectives is not None:
        collectives.warm_up()
        for done, block in enumerate(plan.blocks, 1):
            result["all_reduces"].append(collectives.time(block))
            if rank == 0:
                channel.send({"progress": plan.share_done(len(plan.pairs), done)})
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


def _stream(
    plan: Plan, pair: tuple[int, int], cluster: Cluster, rank: int, channel: Channel
) -> Message | None:
    """Take part in a stream from the first rank of a pair to the other.

    Returns:
        What the receiver saw; None on all other nodes.
    """
    sender, receiver = pair
    if rank == receiver:
        return _receive_stream(plan, _stream_address(cluster, pair), channel)
    channel.meet("listening")
    if rank == sender:
        with socket.create_connection(_stream_address(cluster, pair)) as connection:
            _send_back(connection)
            with suppress(ConnectionError):  # the receiver has seen enough
                for _ in range(-(-plan.stream_bytes // _CHUNK)):
                    connection.sendall(bytes(_CHUNK))
    return None


def _receive_stream(plan: Plan, address: tuple[str, int], channel: Channel) -> Message:
    with socket.create_server(address) as server:
        channel.meet("listening")
        connection, _ = server.accept()
    untimed, size = round(_UNTIMED_SHARE * plan.stream_bytes), plan.stream_bytes
    with connection:
        round_trip_s = _round_trip_s(connection)
        _receive(connection, untimed, _UNTIMED_SHARE * plan.stream_s)
        started = time.perf_counter()
        received = _receive(connection, size - untimed, (1 - _UNTIMED_SHARE) * plan.stream_s)
        seconds = time.perf_counter() - started
        segment = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
        packet = connection.getsockopt(socket.IPPROTO_IP, _IP_MTU)
        if received >= size - untimed:
            _receive(connection, _CHUNK + size)  # to the end: nothing is left on the link
    return {
        "payload_bytes": received,
        "seconds": seconds,
        "segment_bytes": segment,
        "frame_bytes": packet + _ETHERNET_HEADER,
        "round_trip_s": round_trip_s,
    }


def _stream_address(cluster: Cluster, pair: tuple[int, int]) -> tuple[str, int]:
    """Return where the receiver of a pair listens for a stream.

    Hosts have a port each of those that are allowed: the receiver does not use the sender's.
    """
    addresses = cluster.addresses()
    (_, other), (host, own) = (parsed(addresses[rank]) for rank in pair)
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


def _receive(connection: socket.socket, least: int, within_s: float = math.inf) -> int:
    """Receive `least` bytes or a little more; return how many.

    They are fewer if the stream ends, or `within_s` is over.
    """
    received, ends = 0, time.monotonic() + within_s
    while received < least and time.monotonic() < ends and (chunk := connection.recv(_CHUNK)):
        received += len(chunk)
    return received

"""One worker of a calibration. Imports TensorFlow."""

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

_PORT = 2999  # in emulated nodes, apart from the ports of the workers' servers
_ROUND_TRIPS, _ROUND_TRIPS_S = 100, 0.5
_PING, _ENOUGH = b"?", b"."
_CHUNK = 1 << 18
_UNTIMED_SHARE = 0.1  # of a stream: TCP adapts first, and the first burst exceeds the rate limit
_ETHERNET_HEADER = 14
_IP_MTU = 14  # socket option in linux/in.h: the largest IP packet to this peer, in bytes
_WARM_UPS = 3


def measure_node(plan: Plan, cluster: Cluster, rank: int, channel: Channel) -> Message:
    """Run the measurements of `plan` as worker `rank`; return this worker's part.

    Meets the other workers when it is in its node ("placed"), before the measurements ("warm"),
    when the receiver of a stream listens ("listening") and at the end ("timed"). Rank 0 sends
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
    """The all-reduces of strategies. The ring is traced once for all payloads.

    Each all-reduce runs once when this object is created. Otherwise tracing, and the growth of
    memory and TCP windows, would be timed with the first one.
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
        """Run some all-reduces, so that they adapt to a new speed of the link."""
        for block in self._first.values():
            for _ in range(_WARM_UPS):
                self._ring.barrier()
                self._all_reduces[block.collective](_ones(block))

    def time(self, block: Block) -> Message:
        """Run a block; return its start, its end and the bytes sent.

        Times are monotonic, by a clock that all workers on a machine share.

        Raises:
            ArithmeticError: a sum is wrong.
        """
        ones, all_reduce = _ones(block), self._all_reduces[block.collective]
        self._ring.barrier()
        sent, started = traffic().sent, time.monotonic()
        for _ in range(block.repeats):
            total = all_reduce(ones)
        ended = time.monotonic()
        self._ring.barrier()  # a worker may have its sum before its last bytes are sent
        sent = traffic().sent - sent
        if not (np.asarray(total) == self._nodes).all():
            raise ArithmeticError(f"the sum over {self._nodes} nodes is wrong")
        return {"started": started, "ended": ended, "bytes_sent": sent}


def _ones(block: Block) -> tf.Tensor:
    """Return ones in the type that the collective takes without a copy: a tensor or an array."""
    ones = np.ones(block.payload_bytes // 4, np.float32)
    return tf.constant(ones) if block.collective == "ring" else ones


def _busy(seconds: float) -> Message:
    """Compute for `seconds` of wall time; return the CPU time that was obtained."""
    cpu, started = time.process_time(), time.perf_counter()
    while time.perf_counter() - started < seconds:
        pass
    return {"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - started}


def _stream(
    plan: Plan, pair: tuple[int, int], cluster: Cluster, rank: int, channel: Channel
) -> Message | None:
    """Take part in a stream from the first rank of a pair to the second.

    Returns:
        The receiver's measurement; None on all other nodes.
    """
    sender, receiver = pair
    if rank == receiver:
        return _receive_stream(plan, _stream_address(cluster, pair), channel)
    channel.meet("listening")
    if rank == sender:
        with socket.create_connection(_stream_address(cluster, pair)) as connection:
            _send_back(connection)
            with suppress(ConnectionError):  # the receiver has received enough
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
            _receive(connection, _CHUNK + size)  # read to the end, so that the link is free again
    return {
        "payload_bytes": received,
        "seconds": seconds,
        "segment_bytes": segment,
        "frame_bytes": packet + _ETHERNET_HEADER,
        "round_trip_s": round_trip_s,
    }


def _stream_address(cluster: Cluster, pair: tuple[int, int]) -> tuple[str, int]:
    """Return the address at which the receiver of a pair listens for a stream.

    Each host has one of the allowed ports, so on hosts the receiver listens on the sender's port,
    which it does not use otherwise. In emulated nodes all ports are equal, and it listens on
    `_PORT`.
    """
    addresses = cluster.addresses()
    (_, other), (host, own) = (parsed(addresses[rank]) for rank in pair)
    return host, _PORT if other == own else other


def _round_trip_s(connection: socket.socket) -> float:
    """Return the median time, in seconds, of sending a byte to the peer and back."""
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
    """Answer the peer that runs `_round_trip_s`."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while connection.recv(1) == _PING:
        connection.sendall(_PING)


def _receive(connection: socket.socket, least: int, within_s: float = math.inf) -> int:
    """Receive `least` bytes or slightly more; return how many.

    The result is smaller if the stream ends or `within_s` is over.
    """
    received, ends = 0, time.monotonic() + within_s
    while received < least and time.monotonic() < ends and (chunk := connection.recv(_CHUNK)):
        received += len(chunk)
    return received

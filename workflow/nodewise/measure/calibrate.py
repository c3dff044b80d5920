"""Calibrate emulated nodes or hosts: measure their shares of a core, links and ring all-reduces.

Every launch runs in a process of its own, like that of a cell: fresh workers in a fresh network.
In it each node computes, then nodes stream data, one after another, then all nodes sum payloads of
growing size.
"""

import random
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nodewise.cluster import api, cgroup
from nodewise.cluster.channel import Channel, Message
from nodewise.cluster.host_settings import HostSettings
from nodewise.cluster.lock import exclusive_machine
from nodewise.core.cell import Frozen
from nodewise.core.errors import UserError
from nodewise.core.files import check_writable, write_text
from nodewise.core.progress import progress
from nodewise.core.schema import json_text
from nodewise.measure.block_job import BlockJob
from nodewise.measure.cell import NO_RESULT, failure_of
from nodewise.measure.environment import settle_environment
from nodewise.measure.fresh_process import EndedEarlyError, run_fresh
from nodewise.measure.period import Period
from nodewise.measure.provenance import command, provenance
from nodewise.measure.traffic import traffic
from nodewise.results.calibration import AllReduce, Busy, Calibration, Launch, Stream, Transfer
from nodewise.results.record import Failure, Kind
from nodewise.study.config import Config, read_config

if TYPE_CHECKING:
    from nodewise.strategies.ring import RingAllReduce

_PRELOAD = ["nodewise.data.quiet_tensorflow", "nodewise.measure.node", "nodewise.strategies.ring"]
_MOST_EMULATED = 8
PAYLOADS = (4_000, 64_000, 512_000, 4_000_000, 16_000_000, 64_000_000)
_MOST_BLOCKS = 2  # a launch is measured again if the machine was not quiet; the last one is kept
_BUSY_S = 2.0
_UNTIMED_S, _STREAM_S = 0.3, 3.0  # at first TCP adapts, and a burst exceeds the rate limit
_ALL_REDUCES_S = 0.7  # duration of all all-reduces of one payload, unless one takes longer
_LONG_S = 1.0  # if one all-reduce takes longer, larger payloads are left out
_PORT = 2999  # in emulated nodes, apart from the ports of the workers' servers
_CHUNK = 1 << 18
_ETHERNET_HEADER = 14
_IP_MTU = 14  # socket option in linux/in.h: the largest IP packet to this peer, in bytes
_MIN_RTT_AT = 148  # in struct tcp_info of linux/tcp.h: microseconds


class Plan(Frozen):
    """One launch. With `streams`, each node streams to the next one, and the last to the first."""

    nodes: int
    repeat: int
    streams: bool
    time_limit_s: float


class Outcome(Frozen):
    """How a launch ended: it has a `launch` if the status is ok, and else a `failure`."""

    status: Literal["ok", "failed", "refused"]
    failure: Failure | None = None
    launch: Launch | None = None
    streams: tuple[Stream, ...] = ()
    kind: Kind = "emulated"
    network: str = "none"
    cpu_limit: str = "none"


def calibrate(config: Path, *, output: Path, logs: Path, repeats: int = 2) -> Calibration:
    """Measure the emulated nodes or the hosts of a study and write the result to `output`.

    Each number of nodes is launched `repeats` times, every number once before any is repeated, in
    an order that depends on the study's seed. If this machine does not permit emulated nodes, or a
    launch fails, the result says so.

    Raises:
        UserError: the configuration cannot be read, or has neither emulated nodes nor two hosts, or
            a launch on hosts gave no result.
    """
    study = read_config(config)
    settings, counts = _nodes_of(study, config)
    hosts = isinstance(settings, HostSettings)
    check_writable(output)
    settle_environment()
    period, chance = Period(), random.Random(study.seed)  # noqa: S311 (an order, not a secret)
    made = provenance(config=config, command=command("nodewise", "calibrate", "--config", config))
    outcomes: list[Outcome] = []
    order = [(n, repeat) for repeat in range(repeats) for n in chance.sample(counts, len(counts))]
    with progress(f"{config}: calibration", len(order)) as show:
        for number, (nodes, repeat) in enumerate(order):
            plan = Plan(
                nodes=nodes,
                repeat=repeat,
                streams=nodes == (counts[-1] if hosts else 2),  # emulated links are all alike
                time_limit_s=study.cell_time_limit_s,
            )
            outcomes.append(_launch(settings, plan, logs / f"launch~{number}"))
            show(number + 1)
            if outcomes[-1].failure:
                break
    last = outcomes[-1]
    if last.failure and hosts:  # started by a user, who can fix the problem
        raise UserError(f"{config}: {last.status}: {last.failure.reason}; logs: {logs}")
    calibration = Calibration(
        study=study.name,
        cluster=settings,
        kind=last.kind,
        status=last.status,
        started_at=period.started_at,
        finished_at=period.finished_at(),
        provenance=made.model_copy(update=last.model_dump(include={"network", "cpu_limit"})),
        streams=[stream for one in outcomes for stream in one.streams],
        launches=[one.launch for one in outcomes if one.launch and not last.failure],
        failure=last.failure,
    )
    write_text(output, json_text(calibration))
    return calibration


def _nodes_of(study: Config, config: Path) -> tuple[api.LinkedSettings, list[int]]:
    """Return the settings of the calibrated cluster, and the numbers of nodes to launch.

    These are 1, 2, 4 and 8 emulated nodes up to the study's largest number, which comes last, and
    as far as the cores reach; or 2, 4, 8, … and all hosts.

    Raises:
        UserError: there is nothing to calibrate.
    """
    calibrated = study.calibrated_cluster()
    if calibrated is None:
        raise UserError(f"{config}: cluster.kind: must be emulated, ssh or slurm to have links")
    settings, most = calibrated
    least, most = 1, min(most, _MOST_EMULATED)
    if isinstance(settings, HostSettings):
        least, most = 2, settings.known_hosts
    if most < least:
        raise UserError(f"{config}: cluster: one host has no link to calibrate, give two or more")
    counts = {most, *(n for n in (1, 2, 4, 8, 16, 32, 64) if least <= n <= most)}
    return settings, sorted(n for n in counts if n == 1 or settings.cores(n) <= cgroup.cores())


def _launch(settings: api.LinkedSettings, plan: Plan, logs: Path) -> Outcome:
    """Run a launch in a process of its own."""
    try:
        return Outcome.model_validate_json(run_fresh(_outcome, settings, plan, logs))
    except EndedEarlyError as error:
        reason = f"the launch of {plan.nodes} nodes: {error}"
        return Outcome(status="failed", failure=Failure(reason=reason, rank=None, log_tail=[]))


def _outcome(settings: api.LinkedSettings, plan: Plan, logs: Path) -> str:
    """Return the outcome of a launch as JSON."""
    cluster = settings.take(plan.nodes)
    try:
        with exclusive_machine(), cluster.open():
            outcome = _measure(plan, cluster, logs)
    except (*NO_RESULT, UserError) as error:
        status, failure = failure_of(error)
        outcome = Outcome(status=status, failure=failure)
    return outcome.model_dump_json()


def _measure(plan: Plan, cluster: api.Cluster, logs: Path) -> Outcome:
    period = Period()
    job = BlockJob(
        cluster,
        plan.nodes,
        partial(measure_node, plan=plan, cluster=cluster),
        logs=logs,
        time_limit_s=plan.time_limit_s,
        preload=_PRELOAD,
        most_blocks=_MOST_BLOCKS,
        host_job={"plan": plan.model_dump(mode="json")},
    )
    parts, blocks = job.run(), job.blocks
    streams = [stream for part in parts for stream in part["streams"]]  # by rank of the receiver
    labels = [cluster.label(rank) for rank in range(plan.nodes)]
    launch = Launch(
        nodes=plan.nodes,
        repeat=plan.repeat,
        started_at=period.started_at,
        seconds=period.seconds(),
        busy=[Busy(**part["busy"]) for part in parts],
        transfer=Transfer(**streams[1]) if plan.nodes == 2 and streams else None,
        all_reduces=[
            _combine(of_nodes, one_clock=not cluster.remote)
            for of_nodes in zip(*(part["all_reduces"] for part in parts), strict=True)
        ],
        conditions=blocks[-1],
        discarded=blocks[:-1],
    )
    return Outcome(
        status="ok",
        launch=launch,
        streams=tuple(
            Stream(ends=[labels[rank - 1], labels[rank]], **stream)
            for rank, stream in enumerate(streams)
            if cluster.remote
        ),
        kind=cluster.kind,
        network=cluster.network,
        cpu_limit=cluster.cpu_limit,
    )


def _combine(of_nodes: tuple[Message, ...], *, one_clock: bool) -> AllReduce:
    """Combine what all nodes measured of one payload; see `AllReduce.seconds`."""
    first, ends = of_nodes[0], [one["ended"] for one in of_nodes]
    starts = [one["started"] for one in of_nodes]
    longest = max(end - start for start, end in zip(starts, ends, strict=True))
    return AllReduce(
        payload_bytes=first["payload_bytes"],
        repeats=first["repeats"],
        seconds=max(ends) - max(starts) if one_clock else longest,
        bytes_sent=[one["bytes_sent"] for one in of_nodes],
    )


def measure_node(rank: int, channel: Channel, *, plan: Plan, cluster: api.Cluster) -> Message:
    """Measure as worker `rank`; return this worker's part.

    Meets the other workers when it is in its node ("placed"), before the measurement ("warm"), when
    the receiver of a stream listens ("listening") and after the measurement ("timed"). The launcher
    decides whether the measurement is repeated.
    """
    from nodewise.measure.node import start_in_node
    from nodewise.strategies.ring import RingAllReduce

    start_in_node(cluster, rank, channel, plan.nodes)
    ring = RingAllReduce() if plan.nodes > 1 else None
    if ring:
        ring.barrier()  # connect at full speed
    cluster.limit_link(rank)
    again = True
    while again:
        channel.meet("warm")
        cpu, started = time.process_time(), time.perf_counter()
        while (wall_s := time.perf_counter() - started) < _BUSY_S:
            pass
        result: Message = {
            "busy": {"cpu_s": time.process_time() - cpu, "wall_s": wall_s},
            "streams": _streams(rank, channel, cluster, plan.nodes) if plan.streams else [],
            "all_reduces": list(_all_reduces(ring, plan.nodes, channel)) if ring else [],
        }
        again = channel.meet("timed")
    return result


def _streams(rank: int, channel: Channel, cluster: api.Cluster, nodes: int) -> list[Message]:
    """Send data to the next node and receive from the previous one; return the latter's stream."""
    received = []
    addresses = [api.parsed(address) for address in cluster.addresses()]
    for receiver in range(nodes):
        sender = (receiver - 1) % nodes
        # A host may listen on the study's ports only: on that of the sender, which is not used
        # there. In emulated nodes all ports are equal.
        (_, port), (host, own) = addresses[sender], addresses[receiver]
        address = host, _PORT if port == own else port
        if rank == receiver:
            with socket.create_server(address) as server:
                channel.meet("listening")
                connection, _ = server.accept()
            with connection:
                received.append(_receive(connection))
            continue
        channel.meet("listening")
        if rank == sender:
            with socket.create_connection(address) as connection, suppress(ConnectionError):
                while True:  # until the receiver closes the connection
                    connection.sendall(bytes(_CHUNK))
    return received


def _receive(connection: socket.socket) -> Message:
    """Count the bytes that arrive within some seconds."""
    for seconds in (_UNTIMED_S, _STREAM_S):
        payload_bytes, started = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - started) < seconds:
            payload_bytes += len(connection.recv(_CHUNK))
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _MIN_RTT_AT + 4)
    return {
        "payload_bytes": payload_bytes,
        "seconds": elapsed,
        "segment_bytes": connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG),
        "frame_bytes": connection.getsockopt(socket.IPPROTO_IP, _IP_MTU) + _ETHERNET_HEADER,
        "round_trip_s": struct.unpack_from("=I", info, _MIN_RTT_AT)[0] / 1e6,
    }


def _all_reduces(ring: "RingAllReduce", nodes: int, channel: Channel) -> Iterator[Message]:
    """Yield the times and the bytes sent of the all-reduces of each payload.

    Raises:
        ArithmeticError: a sum is wrong.
    """
    import tensorflow as tf

    all_reduce = tf.function(ring.sum, autograph=False)
    for payload in PAYLOADS:
        ones = tf.ones([payload // 4])
        for _ in range(2):  # the first one is traced
            ring.barrier()
            began = time.monotonic()
            all_reduce(ones)
        expected_s = max(channel.share(time.monotonic() - began, nodes))
        repeats = max(1, round(_ALL_REDUCES_S / expected_s))
        ring.barrier()
        sent, started = traffic().sent, time.monotonic()
        for _ in range(repeats):
            total = all_reduce(ones)
        ended = time.monotonic()
        ring.barrier()  # a worker may have its sum before its last bytes are sent
        sent = traffic().sent - sent
        if not (total.numpy() == nodes).all():
            raise ArithmeticError(f"the sum over {nodes} nodes is wrong")
        yield {
            "payload_bytes": payload,
            "repeats": repeats,
            "started": started,
            "ended": ended,
            "bytes_sent": sent,
        }
        if expected_s > _LONG_S:
            return

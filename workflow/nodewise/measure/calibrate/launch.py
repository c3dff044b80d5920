"""One launch of a calibration, in a process of its own."""

import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodewise.cluster import api, process
from nodewise.cluster.channel import Channel, Message
from nodewise.cluster.hosts import Hosts
from nodewise.cluster.worker_state import Worker
from nodewise.core.errors import UserError
from nodewise.measure.calibrate.plan import Block, Plan
from nodewise.measure.cell import NO_RESULT, failure_of
from nodewise.measure.environment import ENVIRONMENT, KEEP_MEMORY
from nodewise.measure.period import Period
from nodewise.results.calibration import AllReduce, Busy, Launch, Stream, Transfer

if TYPE_CHECKING:
    from nodewise.measure.quiet_machine import Blocks

Send = Callable[[dict[str, Any]], None]


def run(plan: Plan, logs: Path, send: Send) -> None:
    """Run the measurements of `plan`; the workers' logs go to `logs`.

    Sends `{"waiting": true}` and `{"progress": share}`. The last message is `{"launch": …}`, with
    streams and facts about the nodes, or `{"status": …, "failure": …}`.
    """
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    cluster = plan.take()
    try:
        with cluster.to_itself(lambda: send({"waiting": True})), cluster.open():
            launch, streams = _measure(plan, cluster, logs, send)
    except (*NO_RESULT, UserError) as error:
        status, failure = failure_of(error)
        send({"status": status, "failure": failure.model_dump(mode="json")})
    else:
        about = {"kind": cluster.kind, "network": cluster.network, "cpu_limit": cluster.cpu_limit}
        seen = [stream.model_dump(mode="json") for stream in streams]
        send({"launch": launch.model_dump(mode="json"), "streams": seen, "about": about})


def _measure(
    plan: Plan, cluster: api.Cluster, logs: Path, send: Send
) -> tuple[Launch, list[Stream]]:
    from nodewise.measure import quiet_machine  # imports NumPy

    period = Period()
    blocks = quiet_machine.Blocks(cluster, limit=1)
    parts = _LaunchJob(plan, cluster, logs, blocks, send).run()
    seen = [parts[pair[1]]["streams"][place] for place, pair in enumerate(plan.pairs)]
    launch = Launch(
        nodes=plan.nodes,
        repeat=plan.repeat,
        started_at=period.started_at,
        seconds=period.seconds(),
        busy=[Busy(**part["busy"]) for part in parts],
        transfer=Transfer(**seen[0]) if plan.nodes == 2 and seen else None,
        all_reduces=[
            _combine(
                block,
                [part["all_reduces"][place] for part in parts],
                one_clock=not cluster.remote,
            )
            for place, block in enumerate(plan.blocks)
        ],
        conditions=blocks.seen[0],
        discarded=[],
    )
    ends = ([cluster.label(rank) for rank in pair] for pair in plan.pairs)
    return launch, [Stream(ends=of, **one) for of, one in zip(ends, seen, strict=True)]


class _LaunchJob(process.Job):
    """The workers of a launch."""

    def __init__(
        self, plan: Plan, cluster: api.Cluster, logs: Path, blocks: "Blocks", send: Send
    ) -> None:
        super().__init__(
            plan.nodes,
            partial(_work, plan=plan, cluster=cluster),
            logs=logs,
            time_limit_s=plan.time_limit_s,
            preload=["nodewise.measure.calibrate.node"],
        )
        self._plan, self._cluster, self._blocks, self._send = plan, cluster, blocks, send

    def start(self, rank: int, log: Path) -> Worker:
        if not isinstance(self._cluster, Hosts):
            return super().start(rank, log)
        job = {"plan": self._plan.model_dump(mode="json"), "time_limit_s": self._plan.time_limit_s}
        environment = ENVIRONMENT | KEEP_MEMORY
        return self._cluster.start(rank, log, job, files=[], environment=environment)

    def on_message(self, rank: int, message: Message) -> None:
        self._send(message)

    def on_meeting(self, name: str, pids: list[int]) -> bool:
        return self._blocks.on_meeting(name, pids)

    def on_poll(self) -> None:
        self._cluster.check()


def _work(rank: int, channel: Channel, *, plan: Plan, cluster: api.Cluster) -> Message:
    from nodewise.measure.calibrate.node import measure_node

    return measure_node(plan, cluster, rank, channel)


def _combine(block: Block, parts: list[dict[str, Any]], *, one_clock: bool) -> AllReduce:
    if one_clock:
        seconds = max(part["ended"] for part in parts) - max(part["started"] for part in parts)
    else:
        seconds = max(part["ended"] - part["started"] for part in parts)
    return AllReduce(
        collective=block.collective,
        payload_bytes=block.payload_bytes,
        repeats=block.repeats,
        seconds=seconds,
        bytes_sent=[part["bytes_sent"] for part in parts],
    )

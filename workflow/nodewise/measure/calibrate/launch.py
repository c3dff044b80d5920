"""Run as a process: one launch of a calibration.

Reads its plan (JSON) from standard input. Writes what happens to standard output, a JSON object a
line: `{"waiting": true}`, `{"progress": share}`, and at the end either `{"launch": …}` with what
the nodes turned out to be, or `{"status": …, "failure": …}`. The argument is the folder that
receives the workers' logs.
"""

import json
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nodewise.calibration import AllReduce, Busy, Launch, Transfer
from nodewise.clusters import base, machine, processes
from nodewise.clusters.emulated import Emulated
from nodewise.measure.calibrate.plan import Block, Plan
from nodewise.records import Conditions, Failure
from nodewise.tensorflow_import import import_tensorflow


def main() -> None:
    """Measure the plan on standard input."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    plan = Plan.model_validate_json(sys.stdin.read())
    cluster = Emulated(plan.nodes, plan.cluster)
    try:
        with machine.to_itself(lambda: _say({"waiting": True})), cluster.open():
            launch = _measure(plan, cluster, Path(sys.argv[1]))
    except base.NotPermittedError as error:
        _say_failure("refused", Failure(reason=error.whole, rank=None, log_tail=[]))
    except processes.WorkerError as error:
        failure = Failure(reason=error.reason, rank=error.rank, log_tail=error.log_tail)
        _say_failure("failed", failure)
    else:
        about = {"kind": cluster.kind, "network": cluster.network, "cpu_limit": cluster.cpu_limit}
        _say({"launch": launch.model_dump(mode="json"), "about": about})


def _measure(plan: Plan, cluster: base.Cluster, logs: Path) -> Launch:
    import_tensorflow()  # once, for all
    from nodewise.measure import guards
    from nodewise.measure.calibrate.node import measure_node

    started = datetime.now(UTC)
    watches: list[guards.Watch] = []
    conditions: list[Conditions] = []

    def met(name: str, pids: list[int]) -> bool:
        if name == "placed":
            cluster.connect(pids)
        elif name == "warm":
            watches.append(guards.Watch(cluster))
            cluster.throttle()
        elif name == "timed":
            conditions.append(watches[0].conditions())
            cluster.unleash()
        return False

    parts = processes.run(
        plan.nodes,
        lambda rank, channel: measure_node(plan, cluster, rank, channel),
        logs=logs,
        time_limit_s=plan.time_limit_s,
        on_message=lambda rank, message: _say(message),
        on_meeting=met,
        on_poll=cluster.check,
    )
    return Launch(
        nodes=plan.nodes,
        repeat=plan.repeat,
        started_at=started,
        seconds=(datetime.now(UTC) - started).total_seconds(),
        busy=[Busy(**part["busy"]) for part in parts],
        transfer=Transfer(**parts[1]["transfer"]) if plan.transfer_bytes else None,
        all_reduces=[
            _together(block, [part["all_reduces"][place] for part in parts])
            for place, block in enumerate(plan.blocks)
        ],
        conditions=conditions[0],
        discarded=[],
    )


def _together(block: Block, parts: list[dict[str, Any]]) -> AllReduce:
    return AllReduce(
        collective=block.collective,
        payload_bytes=block.payload_bytes,
        repeats=block.repeats,
        seconds=max(part["ended"] for part in parts) - max(part["started"] for part in parts),
        bytes_sent=[part["bytes_sent"] for part in parts],
    )


def _say_failure(status: str, failure: Failure) -> None:
    _say({"status": status, "failure": failure.model_dump(mode="json")})


def _say(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    main()

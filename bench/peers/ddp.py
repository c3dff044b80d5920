"""Run one job of PyTorch's DistributedDataParallel on the project's own nodes. Run as a process.

Reads a `Job` (JSON) from standard input and writes one JSON object: `{"result": …}`, or
`{"failure": reason}`. The nodes are the same as those of any cell, with the same namespaces, links
and CPU shares, and they end as reliably. Only the worker differs: once it is in its node, it is
replaced by PyTorch's interpreter.
"""

import json
import os
import signal
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from nodewise.cluster import api, lock
from nodewise.cluster.channel import Channel
from nodewise.cluster.local import LocalProcesses
from nodewise.core.cell import AnyCluster, Frozen
from nodewise.measure.block_job import BlockJob
from nodewise.measure.cell import NO_RESULT, failure_of
from nodewise.measure.environment import settle_environment
from nodewise.results.quiet_thresholds import MAX_BLOCKS

WORKER = Path(__file__).with_name("ddp_worker.py")


class Job(Frozen):
    """What to train, where, and with which interpreter.

    With `examples`, which are arrays x and y of global batches, (steps, examples, …), the job
    trains on them from the `weights` that Keras saved, without dropout, and returns the loss of
    every step. Otherwise it trains on the examples in the folder `dataset` and returns times.
    """

    python: str
    model: str
    cluster: AnyCluster
    nodes: int
    batch: int
    seed: int
    warmup_steps: int
    steps: int
    split_steps: int
    dataset: str
    weights: str | None = None
    examples: str | None = None
    time_limit_s: float


def main() -> None:
    """Run the job read from standard input."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    job = Job.model_validate_json(sys.stdin.read())
    settle_environment()  # before NumPy: a process with threads cannot enter namespaces
    said: dict[str, Any]
    try:
        said = {"result": run(job)}
    except NO_RESULT as error:
        _, failure = failure_of(error)
        said = {"failure": "; ".join([failure.reason, *failure.log_tail[-1:]])}
    print(json.dumps(said))


def run(job: Job) -> dict[str, Any]:
    """Run the job on its own nodes, while nothing else is measured here; return its results."""
    cluster: api.Cluster = LocalProcesses(job.nodes)
    if isinstance(job.cluster, api.LinkedSettings):
        cluster = job.cluster.take(job.nodes)
    with (
        lock.exclusive_machine(),
        cluster.open(),
        tempfile.TemporaryDirectory() as logs,
    ):
        launch = BlockJob(
            cluster,
            job.nodes,
            partial(become_worker, job=job, cluster=cluster),
            logs=Path(logs),
            time_limit_s=job.time_limit_s,
            most_blocks=MAX_BLOCKS,
        )
        parts = launch.run()
        about = {
            "kind": cluster.kind,
            "network": cluster.network,
            "cpu_limit": cluster.cpu_limit,
            "torch": parts[0]["torch"],
        }
        if job.examples:
            return about | {
                "losses": [sum(of) for of in zip(*(p["losses"] for p in parts), strict=True)]
            }
        return about | {
            "step_s": max(part["elapsed_s"] for part in parts) / job.steps,
            "all_reduce_s": parts[0]["all_reduce_s"],
            "payload_bytes": parts[0]["payload_bytes"],
            "sent_bytes": None,
            "outside": launch.blocks[-1].outside,
        }


def become_worker(rank: int, channel: Channel, *, job: Job, cluster: api.Cluster) -> NoReturn:
    """Move into the node and become PyTorch's interpreter."""
    from nodewise.strategies.transport import interface

    cluster.enter_node(rank)
    channel.meet("placed")
    cluster.join(rank)
    cluster.limit_link(rank)  # limit it now, because PyTorch cannot do it later
    addresses = cluster.addresses()
    os.environ["GLOO_SOCKET_IFNAME"] = interface(addresses[rank])
    line = channel.connection.fileno()
    os.set_inheritable(line, True)
    told = job.model_dump(mode="json") | {
        "rank": rank,
        "size": job.nodes,
        "line": line,
        "meeting_place": addresses[0],
    }
    os.execv(job.python, [job.python, str(WORKER), json.dumps(told)])  # noqa: S606


if __name__ == "__main__":
    main()

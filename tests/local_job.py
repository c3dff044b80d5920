"""Start the workers of a job on nodes of this machine, in the way those of a cell are started."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from nodewise.cluster import api, process
from nodewise.cluster.channel import Channel, Message

Train = Callable[[int, tuple[str, ...]], Any]


def run_workers(
    cluster: api.Cluster, workers: int, train: Train, logs: Path, **hooks: Any
) -> list[Message]:
    """Call `train(rank, addresses)` in each worker inside its node, and return the results."""
    work = partial(_in_node, cluster=cluster, workers=workers, train=train)
    preload = ["nodewise.measure.worker"]
    return run_job(workers, work, logs, time_limit_s=120, preload=preload, **hooks)


def run_job(
    workers: int,
    work: Callable[[int, Channel], Message],
    logs: Path,
    *,
    time_limit_s: float,
    preload: Sequence[str] = (),
    **hooks: Callable[..., Any],
) -> list[Message]:
    """Run a job and return its results; `hooks` replace its methods `on_…`."""
    job = process.Job(workers, work, logs=logs, time_limit_s=time_limit_s, preload=preload)
    vars(job).update(hooks)
    return job.run()


def _in_node(
    rank: int, channel: Channel, *, cluster: api.Cluster, workers: int, train: Train
) -> Message:
    from nodewise.measure import node

    node.start_in_node(cluster, rank, channel, workers)
    return train(rank, tuple(cluster.addresses())) or {}

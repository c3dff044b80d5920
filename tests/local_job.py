"""Start the workers of a job on nodes of this machine, in the way those of a cell are started."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from nodewise.cluster import api, process
from nodewise.cluster.channel import Channel, Message
from nodewise.cluster.local import Local
from nodewise.core.errors import RefusedError
from nodewise.strategies import STRATEGIES

Train = Callable[[int, tuple[str, ...]], Any]


def train_cases(
    out: Path, cases: dict[str, Any], train: Callable[..., None], cluster: api.Cluster | None = None
) -> None:
    """Train each case in new workers, by `train(rank, addresses, case=case, out=OUT/NAME)`.

    A case has a `strategy`, its `options` and `nodes`. If it fails, OUT/NAME/failure.txt says why.
    """
    cluster = cluster or Local(max(case.nodes for case in cases.values()))
    with cluster.open():
        for name, case in cases.items():
            (out / name).mkdir(parents=True)
            workers = 1 if STRATEGIES[case.strategy].one_process else case.nodes
            try:
                run_workers(cluster, workers, partial(train, case=case, out=out / name), out / name)
            except (process.WorkerError, RefusedError) as error:
                (out / name / "failure.txt").write_text(str(error))


def make_strategy(
    case: Any,
    rank: int,
    addresses: tuple[str, ...],
    build: Callable[[], Any],
    global_batch: int,
    **more: Any,
) -> Any:
    """Return the strategy of a case in one of its workers; `more` are further fields of its job."""
    from nodewise.strategies.api import Job

    entry = STRATEGIES[case.strategy]
    options = entry.checked(case.options, case.nodes)
    connected = addresses[: 1 if entry.one_process else case.nodes]
    job = Job(rank, case.nodes, global_batch, 3, build, options, connected, **more)
    return entry.worker().Strategy(job)


def run_workers(cluster: api.Cluster, workers: int, train: Train, logs: Path) -> list[Message]:
    """Call `train(rank, addresses)` in each worker inside its node, and return the results."""

    def met(name: str, pids: list[int]) -> None:
        if name == "placed":
            cluster.connect(pids)

    work = partial(_in_node, cluster=cluster, workers=workers, train=train)
    preload = ["nodewise.measure.worker"]
    return run_job(workers, work, logs, time_limit_s=120, preload=preload, on_meeting=met)


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

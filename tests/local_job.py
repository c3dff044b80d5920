"""Train with strategies on nodes of this machine; workers start as those of a cell do."""

import json
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from nodewise.cluster import api, process
from nodewise.cluster.channel import Channel, Message
from nodewise.cluster.local import LocalProcesses
from nodewise.core.errors import RefusedError
from nodewise.strategies import STRATEGIES

Train = Callable[[int, tuple[str, ...], Channel], Any]


def train_cases(
    out: Path, cases: dict[str, Any], train: Callable[..., Any], cluster: api.Cluster | None = None
) -> None:
    """Train each case in new processes, by `train(rank, addresses, channel, case=…, out=OUT/NAME)`.

    A case has a `strategy`, its `options` and `nodes`. Servers come after the workers. If a case
    has a `hit`, that rank is killed when all have met to `go`. OUT/NAME/results.json has what the
    workers returned; if the case failed, OUT/NAME/failure.json has the reason and the seconds
    since the meeting.
    """
    sizes = {name: _workers(case) + servers(case) for name, case in cases.items()}
    cluster = cluster or LocalProcesses(max(sizes.values()))
    with cluster.open():
        for name, case in cases.items():
            (out / name).mkdir(parents=True)
            began = [time.monotonic()]

            def go(pids: list[int], case: Any = case, began: list[float] = began) -> None:
                began[0] = time.monotonic()
                if getattr(case, "hit", None) is not None:
                    os.kill(pids[case.hit], signal.SIGKILL)

            work = partial(train, case=case, out=out / name)
            try:
                results = run_workers(cluster, _workers(case), work, out / name, servers(case), go)
                told: Any = results[: _workers(case)]
                (out / name / "results.json").write_text(json.dumps(told))
            except (process.WorkerError, RefusedError) as error:
                told = {"error": str(error), "seconds": time.monotonic() - began[0]}
                (out / name / "failure.json").write_text(json.dumps(told))


def build_library(strategy: str) -> None:
    """Build Horovod in results/horovod if the strategy is `horovod`, which may take minutes.

    If it cannot be built here, skip the test; in continuous integration that is an error.
    """
    import pytest

    from nodewise.strategies.horovod import build as horovod_build

    if strategy == "horovod":
        reason = horovod_build.build(horovod_build.FOLDER)
        assert reason is None or "CI" not in os.environ, reason
        if reason:
            pytest.skip(reason)


def results(folder: Path) -> list[Message]:
    """Return what the workers of a case returned, by rank."""
    assert not failure(folder), failure(folder)
    found: list[Message] = json.loads((folder / "results.json").read_text())
    return found


def failure(folder: Path) -> Message:
    """Return the `error` of a case and after how many `seconds` it came; empty if it succeeded."""
    told = folder / "failure.json"
    return json.loads(told.read_text()) if told.exists() else {}


def servers(case: Any) -> int:
    """Return how many servers a case has."""
    return STRATEGIES[case.strategy].options.model_validate(dict(case.options)).server_nodes


def _workers(case: Any) -> int:
    return 1 if STRATEGIES[case.strategy].one_process else case.nodes


def make_job(
    case: Any,
    rank: int,
    addresses: tuple[str, ...],
    build: Callable[[], Any],
    global_batch: int,
    **more: Any,
) -> Any:
    """Return the job of a case for one of its processes; `more` are further fields of it."""
    from nodewise.strategies.api import Job

    # Some cases have more servers than nodes, which the check of options would refuse.
    options = STRATEGIES[case.strategy].options.model_validate(dict(case.options))
    connected = addresses[: _workers(case) + options.server_nodes]
    return Job(rank, case.nodes, global_batch, 3, build, options, connected, **more)


def make_strategy(case: Any, *about: Any, **more: Any) -> Any:
    """Return the strategy of a case in one of its workers; see `make_job`."""
    return STRATEGIES[case.strategy].worker().Strategy(make_job(case, *about, **more))


def split_weights(trained: Any) -> list[Any]:
    """Return the trainable weights that `split_step` updates: of a copy, if there is one."""
    copy = getattr(trained, "_copy", None)
    return [v.numpy() for v in (copy or trained).model.trainable_variables]


def run_workers(
    cluster: api.Cluster,
    workers: int,
    train: Train,
    logs: Path,
    servers: int = 0,
    on_go: Callable[[list[int]], None] = lambda pids: None,
) -> list[Message]:
    """Call `train(rank, addresses, channel)` in each process in its node; return the results."""

    def met(name: str, pids: list[int]) -> None:
        if name == "placed":
            cluster.connect(pids)
        elif name == "go":
            on_go(pids)

    work = partial(_in_node, cluster=cluster, workers=workers, train=train)
    preload = ["nodewise.measure.worker"]
    job = process.Job(workers + servers, work, logs=logs, time_limit_s=120, preload=preload)
    job.on_meeting = met
    return job.run()


def _in_node(
    rank: int, channel: Channel, *, cluster: api.Cluster, workers: int, train: Train
) -> Message:
    from nodewise.measure import node

    node.start_in_node(cluster, rank, channel, workers)
    return train(rank, tuple(cluster.addresses()), channel) or {}

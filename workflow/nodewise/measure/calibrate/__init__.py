"""Calibrate emulated nodes or hosts: measure their shares of a core, links and all-reduces.

Every launch runs in a process of its own, like that of a cell: fresh workers in a fresh network.
"""

import json
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from nodewise.cluster import cgroup
from nodewise.cluster.api import LinkedSettings
from nodewise.cluster.host_settings import HostSettings
from nodewise.core.errors import UserError
from nodewise.core.files import check_writable, write_text
from nodewise.core.schema import json_text
from nodewise.measure.calibrate import launch
from nodewise.measure.calibrate.plan import Pace, Plan, plan_launch, plan_probe
from nodewise.measure.environment import settle_environment
from nodewise.measure.period import Period
from nodewise.measure.provenance import command, provenance
from nodewise.results.calibration import Calibration, Launch, Stream
from nodewise.results.measurement import Conditions
from nodewise.results.record import Failure
from nodewise.study.config import Config, read_config

NODES = (1, 2, 4, 8)
REPEATS = 2
MOST_TRIES = 2  # tries of a launch while the machine is not quiet; the last is kept and flagged
_LAUNCH_S = 30.0  # expected duration of a launch on hosts whose links are not measured yet
_LOG_LINES = 20


class NoResultError(Exception):
    """A launch gave no result. `status` is "refused" or "failed"."""

    def __init__(self, status: str, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.status, self.failure = status, failure


def calibrate(
    config: Path,
    *,
    output: Path,
    logs: Path,
    repeats: int = REPEATS,
    progress: Callable[[float], None],
    on_wait: Callable[[], None],
) -> Calibration:
    """Measure the emulated nodes or the hosts of a study and write the result to `output`.

    The numbers of emulated nodes are 1, 2, 4 and 8, up to the study's largest number, and that
    number itself if it is below 8; those that need more cores than this machine has are left out.
    The numbers of hosts are 2, 4, 8, …, and all of them.
    Each number is launched `repeats` times, in an interleaved random order that depends on the
    study's seed. Before that, pairs of hosts stream data, one pair after another. If this machine
    does not permit emulated nodes, or their launch fails, the result says so.

    Raises:
        UserError: the configuration cannot be read, or has neither emulated nodes nor two hosts, or
            a launch on hosts gave no result.
    """
    study = read_config(config)
    cluster, counts = _nodes_of(study, config)
    check_writable(output)
    settle_environment()
    period = Period()
    made = provenance(
        config=config,
        lock=Path("requirements.lock"),
        command=command(
            "nodewise", "calibrate", "--config", config, "--out", output, "--logs", logs
        ),
    )
    about = {"kind": "emulated", "network": "none", "cpu_limit": "none"}
    try:
        if not counts:
            raise NoResultError("refused", _too_small(cluster))
        measured = _measure(
            cluster,
            study,
            counts=counts,
            repeats=repeats,
            logs=logs,
            about=about,
            progress=progress,
            on_wait=on_wait,
        )
        outcome: dict[str, Any] = {"status": "ok", "failure": None, **measured}
    except NoResultError as error:
        if isinstance(cluster, HostSettings):  # started by a user, who can fix the problem
            raise UserError(f"{config}: {error.status}: {error}; logs: {logs}") from error
        outcome = {"status": error.status, "launches": [], "failure": error.failure}
    calibration = Calibration.model_validate(
        {
            "study": study.name,
            "cluster": cluster,
            "kind": about.pop("kind"),
            "started_at": period.started_at,
            "finished_at": period.finished_at(),
            "provenance": made.model_copy(update=about),
            **outcome,
        }
    )
    write_text(output, json_text(calibration))
    return calibration


def _nodes_of(study: Config, config: Path) -> tuple[LinkedSettings, list[int]]:
    """Return the settings of the calibrated cluster, and the numbers of nodes to launch.

    Raises:
        UserError: there is nothing to calibrate.
    """
    calibrated = study.calibrated_cluster()
    if calibrated is None:
        raise UserError(f"{config}: cluster.kind: must be emulated, ssh or slurm to have links")
    cluster, most = calibrated
    if not isinstance(cluster, HostSettings):
        cores = cgroup.cores()
        reached = {n for n in (*NODES, most) if n <= min(most, NODES[-1])}
        return cluster, sorted(n for n in reached if cluster.cores(n) <= cores)
    hosts = cluster.known_hosts
    if hosts < 2:
        raise UserError(
            f"{config}: cluster: one host has no link to calibrate: "
            "give two hosts or more, or an allocation of two nodes or more"
        )
    return cluster, sorted({*(2**power for power in range(1, hosts.bit_length())), hosts})


def _plans(
    cluster: LinkedSettings,
    counts: list[int],
    repeats: int,
    study: Config,
    paces: Mapping[int, Pace],
) -> list[Plan]:
    """Return the launches in their order: every number of nodes once before any is repeated."""
    chance = random.Random(study.seed)  # noqa: S311 (an order, not a secret)
    return [
        plan_launch(cluster, nodes, repeat, study.cell_time_limit_s, paces.get(nodes))
        for repeat in range(repeats)
        for nodes in chance.sample(counts, len(counts))
    ]


def _too_small(cluster: LinkedSettings) -> Failure:
    reason = f"one node asks for {cluster.cores(1):g} of a core, here are {cgroup.cores():g}"
    return Failure(reason=reason, rank=None, log_tail=[])


def _measure(
    cluster: LinkedSettings,
    study: Config,
    *,
    counts: list[int],
    repeats: int,
    logs: Path,
    about: dict[str, str],
    progress: Callable[[float], None],
    on_wait: Callable[[], None],
) -> dict[str, Any]:
    """Return the `streams` between hosts, whose links are unknown, and all `launches`.

    `about` is filled in with the kind, network and CPU limit of the nodes.
    """
    streams: list[Stream] = []
    paces: dict[int, Pace] = {}  # by number of nodes; emulated nodes have theirs in their settings
    probed = 0.0  # the share of the total time that the streams take
    if isinstance(cluster, HostSettings):
        probe = plan_probe(cluster, counts[-1], study.cell_time_limit_s)
        probed = probe.expected_s / (probe.expected_s + _LAUNCH_S * len(counts) * repeats)
        listen = _listener(lambda share: progress(probed * share), on_wait)
        found = _launch(probe, logs / "probe", about, listen)["streams"]
        streams = [Stream.model_validate_json(json.dumps(one)) for one in found]
        paces = _paces(probe.pairs, streams, counts)
    plans = _plans(cluster, counts, repeats, study, paces)
    whole, done = sum(plan.expected_s for plan in plans), 0.0

    def advance(share: float) -> None:
        progress(probed + (1 - probed) * (done + share * plan.expected_s) / whole)

    launches = []
    for number, plan in enumerate(plans):
        folder = logs / f"launch~{number}"
        launches.append(launched(plan, folder, about, _listener(advance, on_wait)))
        advance(1.0)
        done += plan.expected_s
    return {"streams": streams, "launches": launches}


def _listener(
    progress: Callable[[float], None], on_wait: Callable[[], None]
) -> Callable[[dict[str, Any]], None]:
    """Return a function that handles messages of a launch; `progress` gets its share done."""

    def listen(message: dict[str, Any]) -> None:
        if "waiting" in message:
            on_wait()
        elif "progress" in message:
            progress(message["progress"])

    return listen


def _paces(
    pairs: Sequence[tuple[int, int]], streams: Sequence[Stream], counts: Sequence[int]
) -> dict[int, Pace]:
    """Return, by number of nodes, the pace of the slowest link between them."""
    seen = list(zip(pairs, streams, strict=True))
    return {
        nodes: Pace.slowest([stream for pair, stream in seen if max(pair) < nodes])
        for nodes in counts
    }


def launched(
    plan: Plan, logs: Path, about: dict[str, str], on_message: Callable[[dict[str, Any]], None]
) -> Launch:
    """Return one launch. If the machine was not quiet, the launch is repeated once.

    Args:
        plan: what to measure.
        logs: the folder of its workers' logs.
        about: filled in with the kind, network and CPU limit of the nodes.
        on_message: gets the messages of the launch, such as `{"progress": share}`.

    Raises:
        NoResultError: the launch was refused or failed.
    """
    discarded: list[Conditions] = []
    while True:
        found = _launch(plan, logs, about, on_message)["launch"]
        seen = Launch.model_validate_json(json.dumps(found))
        if not seen.conditions.outside or len(discarded) + 1 == MOST_TRIES:
            return seen.model_copy(update={"discarded": discarded})
        discarded.append(seen.conditions)


def _launch(
    plan: Plan, logs: Path, about: dict[str, str], on_message: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Run a launch; return its last message, with its `launch` and `streams`."""
    for message in _run(plan, logs):
        if "launch" in message:
            about |= message["about"]
            return message
        if "failure" in message:
            failure = Failure.model_validate(message["failure"])
            raise NoResultError(message["status"], failure)
        on_message(message)
    raise AssertionError("a launch ends with a result or a failure")


def _run(plan: Plan, logs: Path) -> Iterator[dict[str, Any]]:
    """Start a process for one launch; yield its messages, the last being a result or a failure."""
    logs.mkdir(parents=True, exist_ok=True)
    log = logs / "launch.log"
    fresh = get_context("spawn")
    receiver, sender = fresh.Pipe(duplex=False)
    process = fresh.Process(target=_in_launch, args=(plan, logs, log, sender))
    process.start()
    sender.close()
    last: dict[str, Any] = {}
    try:
        while (message := _received(receiver)) is not None:
            last = message
            yield last
    finally:
        process.terminate()  # does nothing to one that has ended
        process.join()
        receiver.close()
    if not {"launch", "failure"} & last.keys():
        reason = f"the launch of {plan.nodes} nodes ended with exit code {process.exitcode}"
        tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:]
        failure = Failure(reason=reason, rank=None, log_tail=tail)
        yield {"status": "failed", "failure": failure.model_dump(mode="json")}


def _in_launch(plan: Plan, logs: Path, log: Path, sender: Connection) -> None:
    errors = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    for stream in (1, 2):
        os.dup2(errors, stream)
    launch.run(plan, logs, lambda message: sender.send_bytes(json.dumps(message).encode()))


def _received(receiver: Connection) -> dict[str, Any] | None:
    """Return the next message of a launch; None if it has ended."""
    try:
        message: dict[str, Any] = json.loads(receiver.recv_bytes())
    except (EOFError, ConnectionError):
        return None
    return message

"""Measure one cell: launch its workers, put what they report together, write its record.

TensorFlow is imported in the workers only.
"""

import math
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from nodewise.cluster import api, cgroup, cluster_of, memory, process
from nodewise.cluster.channel import Channel, Message
from nodewise.core.cell import Cell
from nodewise.core.errors import RefusedError
from nodewise.core.files import check_writable, project_path, write_text
from nodewise.core.schema import first_error
from nodewise.measure.period import Period, command_began
from nodewise.measure.provenance import data_source, provenance
from nodewise.models.facts import own_description
from nodewise.results.model_description import FLOAT32_BYTES
from nodewise.results.quiet_thresholds import MAX_BLOCKS
from nodewise.results.record import (
    Conditions,
    Epoch,
    Evaluation,
    Failure,
    Measurement,
    Record,
    StartUp,
    WorkerResult,
    record_json,
)
from nodewise.strategies import STRATEGIES
from nodewise.strategies.horovod import build
from nodewise.study.memory_fit import check_fits

if TYPE_CHECKING:
    from nodewise.models.weights import Pretrained

Progress = Callable[[float], None]

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",  # no thread may exist when namespaces are entered
    "TF_CPP_MIN_LOG_LEVEL": "1",
    # TensorFlow takes oneDNN's convolutions by itself only where a processor has AVX-512; with AVX2
    # they make a step of the Fashion CNN twice as fast, too, and one of ResNet50 four times
    "TF_ENABLE_ONEDNN_OPTS": "1",
    # a thread each; by default as many as 64 for every node, which all wake up in a duty cycle
    "TF_GRPC_WORKER_CACHE_QUEUES": "2",
    "TF_GRPC_WORKER_CACHE_THREADS": "2",
}
# A step frees its activations and the next one takes as much again. By default glibc gives them
# back to the kernel in between, which then fills every page anew: a tenth to more than half of a
# step, differently in every launch. glibc reads this when a program starts.
KEEP_MEMORY = {
    "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1),
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_ARENA_MAX": "1",
}
# what every worker of a cell needs; with the command line, in which workers find their launcher
_PRELOAD = (
    "nodewise.data.quiet_tensorflow",
    "nodewise.cli",
    "nodewise.measure.worker",
    "nodewise.measure.data_service",
)
# what a measurement may end with instead of a result; its record says why
NO_RESULT = (api.NotPermittedError, RefusedError, process.WorkerError, MemoryError)
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")


def settle_environment(*, keep_memory: bool = True) -> None:
    """Set what a launcher's workers inherit; before NumPy is imported."""
    os.environ.update(ENVIRONMENT)
    if keep_memory:
        os.environ.update(KEEP_MEMORY)
    for name in _PROXIES:
        os.environ.pop(name, None)
        os.environ.pop(name.upper(), None)


def measure(
    cell: Cell,
    manifest: Path,
    weights: Path | None,
    *,
    output: Path,
    logs: Path,
    config: Path | None,
    command: str,
    progress: Progress,
    on_wait: Callable[[], None],
) -> Record:
    """Train `cell` on the dataset of `manifest` and write its record to `output`.

    `weights` is the manifest of pretrained weights if the model is to start from such; `config`
    the study, if there is one; `command` what repeats the measurement.

    A cell that cannot be measured gives a record too: `refused` if this machine does not permit
    what it asks for or the strategy cannot train its model, `failed` if a worker did not finish.
    Worker logs go to `logs/rank~R.log`. Only one cell is measured on a machine at a time; `on_wait`
    is called if another is.

    Raises:
        UserError: a manifest cannot be read, is not one that the cell and its study permit, or the
            prepared data changed.
        OSError: the record or a log cannot be written.
    """
    settle_environment()
    from nodewise import data
    from nodewise.measure.inputs import check_inputs

    if weights:
        from nodewise.models.weights import read_weights
    source = data.check_arrays(manifest)
    pretrained = read_weights(weights) if weights else None
    check_writable(output)
    check_inputs(cell, source, pretrained, config)
    made = provenance(
        config=config,
        lock=Path("requirements.lock"),
        command=command,
        packages=STRATEGIES[cell.strategy].packages,
    )
    cluster = cluster_of(cell)

    def write(status: str, result: Measurement | None, failure: Failure | None) -> Record:
        nodes = {"network": cluster.network, "cpu_limit": cluster.cpu_limit}
        record = Record.model_validate(
            {
                "cell": cell,
                "kind": cluster.kind,
                "status": status,
                "started_at": period.started_at,
                "finished_at": period.finished_at(),
                "data": data_source(source) if source.train_examples else None,
                "weights": pretrained.source if pretrained else None,
                "provenance": made if status == "refused" else made.model_copy(update=nodes),
                "result": result,
                "failure": failure,
            }
        )
        write_text(output, record_json(record))
        return record

    def write_killed(used: int) -> None:
        reason = memory.out_of_memory("the launcher was killed", used)
        write("failed", None, Failure(reason=reason, rank=None, log_tail=[]))

    period = Period()
    try:
        source.check_usable()
        _check_examples(cell, source.train_examples)
        if not cluster.remote:
            check_fits(cell, memory.machine_bytes())
        with cluster.to_itself(on_wait) as waited_s:
            began, period = command_began() + waited_s, Period()
            STRATEGIES[cell.strategy].check_available()
            with cluster.open():
                launch = _Launch(cell, cluster, progress, write_killed)
                result = _train(launch, manifest, pretrained, logs=logs, began=began)
    except NO_RESULT as error:
        status, failure = failure_of(error)
        return write(status, None, failure)
    return write("ok", result, None)


def _check_examples(cell: Cell, examples: int) -> None:
    if cell.global_batch > examples:
        raise RefusedError(
            f"a global batch of {cell.global_batch} is larger than the {examples} examples"
        )


def failure_of(error: BaseException) -> tuple[str, Failure]:
    """Return the status, `refused` or `failed`, and the reason of one of `NO_RESULT`."""
    match error:
        case process.WorkerError():
            failure = Failure(reason=error.reason, rank=error.rank, log_tail=error.log_tail)
            return "failed", failure
        case MemoryError():
            reason = memory.out_of_memory("in the launcher", memory.own_peak_bytes())
            return "failed", Failure(reason=reason, rank=None, log_tail=[])
        case api.NotPermittedError():
            return "refused", Failure(reason=error.whole, rank=None, log_tail=[])
    return "refused", Failure(reason=str(error), rank=None, log_tail=[])


def _train(
    launch: "_Launch",
    manifest: Path,
    pretrained: "Pretrained | None",
    *,
    logs: Path,
    began: float,
) -> Measurement:
    cell, cluster = launch.cell, launch.cluster
    weights = pretrained.file if pretrained else None
    work = _have_host_work if cluster.remote else do_part
    parts = process.run(
        cell.processes,
        partial(work, cell=cell, cluster=cluster, manifest=manifest, weights=weights),
        logs=logs,
        time_limit_s=cell.time_limit_s,
        preload=_PRELOAD,
        on_message=launch.heard,
        on_meeting=launch.met,
        on_poll=cluster.check,
        on_out_of_memory=launch.on_out_of_memory,
    )
    start_up = StartUp(
        imported_s=launch.reached["imported"] - began,
        workers_ready_s=launch.reached["ready"] - began,
        first_timed_step_s=launch.reached["first_step"] - began,
    )
    try:
        return _together(cell, parts, start_up, launch.blocks.seen)
    except ValidationError as error:
        reason = f"what was measured fits no record: {first_error(error)}"
        raise process.WorkerError(reason, None, []) from error


def _have_host_work(
    rank: int,
    channel: Channel,
    *,
    cell: Cell,
    cluster: api.Cluster,
    manifest: Path,
    weights: Path | None,
) -> Message:
    """Have a host do the part of the process with this rank: what `do_part` does here."""
    job = {
        "cell": cell.model_dump(mode="json"),
        "manifest": project_path(manifest),
        "weights": project_path(weights) if weights else None,
    }
    own = [Path(spec.partition(":")[0]) for spec in (cell.build, cell.load) if spec]
    files = [Path(project_path(path.parent)) for path in (manifest, weights) if path]
    if cell.strategy == "horovod":
        files.append(build.FOLDER)
    if cell.build and own_description(cell).is_file():
        files.append(own_description(cell))
    return cluster.relay(
        rank, channel, job, files=[*files, *own], environment=ENVIRONMENT | KEEP_MEMORY
    )


def do_part(
    rank: int,
    channel: Channel,
    *,
    cell: Cell,
    cluster: api.Cluster,
    manifest: Path,
    weights: Path | None,
) -> Message:
    """Do what the process with this rank does in a cell: train, hold parameters or read data."""
    from nodewise.measure import data_service, worker

    channel.send({"event": "imported", "at": time.monotonic()})
    if rank >= cell.workers + cell.servers:
        return data_service.serve(cell, cluster, rank, channel)
    part = worker.train_cell if rank < cell.workers else worker.serve_parameters
    return part(cell, cluster, rank, channel, manifest=manifest, weights=weights)


# how Keras names what people call accuracy, by the kind of labels
_ACCURACIES = (
    "accuracy",
    "sparse_categorical_accuracy",
    "categorical_accuracy",
    "binary_accuracy",
)


class _Launch:
    """What the launcher hears from its workers, and does when they meet."""

    def __init__(
        self,
        cell: Cell,
        cluster: api.Cluster,
        progress: Progress,
        on_out_of_memory: Callable[[int], None],
    ) -> None:
        from nodewise.measure import quiet_machine  # imports NumPy

        # whole epochs are long, and their accuracy needs no quiet machine
        limit = MAX_BLOCKS if cell.extent.epochs is None else 1
        self.cell, self.cluster, self.on_out_of_memory = cell, cluster, on_out_of_memory
        self.blocks = quiet_machine.Blocks(cluster, limit=limit, time_limit_s=cell.time_limit_s)
        self.reached: dict[str, float] = {}  # event -> when the last worker had reached it
        self._replicas: set[str] = set()
        self._progress = progress

    def heard(self, rank: int, message: Message) -> None:
        if "progress" in message:
            self._progress(message["progress"])
        elif "replica" in message:
            self._replicas.add(message["replica"])
        elif not self.blocks.seen:  # of the first block
            event = message["event"]
            self.reached[event] = max(self.reached.get(event, 0.0), message["at"])

    def met(self, name: str, pids: list[int]) -> bool:
        if name == "warm":
            check_replicas(self._replicas)
        return self.blocks.met(name, pids)


def check_replicas(digests: set[str]) -> None:
    """Check that all workers have sent the same digest of their weights after two steps.

    Raises:
        RefusedError: they have not.
    """
    if len(digests) > 1:
        raise RefusedError(
            "the replicas differ after two steps: the model changes weights other than by its "
            "optimizer, so that a strategy cannot see it"
        )


def _together(
    cell: Cell, parts: list[dict[str, Any]], start_up: StartUp, blocks: list[Conditions]
) -> Measurement:
    """Put the parts of all processes together; refuse a result whose replicas drifted apart."""
    others, parts = parts[cell.workers :], parts[: cell.workers]
    if len({part["weights_sha256"] for part in parts}) > 1:
        raise process.WorkerError("the workers' weights differ after training", None, [])
    devices = sorted({part["device"] for part in parts})
    if len(devices) > 1:
        raise process.WorkerError(f"the workers' devices differ: {'; '.join(devices)}", None, [])
    first = parts[0]
    workers = [
        WorkerResult.model_validate({key: part[key] for key in WorkerResult.model_fields})
        for part in parts
    ]
    return Measurement(
        trainable_parameters=first["trainable_parameters"],
        total_parameters=first["total_parameters"],
        payload_bytes=FLOAT32_BYTES * first["trainable_parameters"],
        steps_per_epoch=first["steps_per_epoch"],
        whole_epochs=cell.extent.epochs is not None,
        start_up=start_up,
        workers=workers,
        epochs=_epochs(cell, parts),
        test=_evaluation([part["test"] for part in parts if part["test"]]),
        oversubscribed=cell.cores > cgroup.cores(),
        # a meter counts the whole machine, for which time passes otherwise than for emulated nodes
        energy_j=first["energy_j"] if cell.cluster.kind == "local" else None,
        others_cpu_s=sum(part["cpu_s"] for part in others),
        conditions=blocks[-1],
        discarded=blocks[:-1],
    )


def _epochs(cell: Cell, parts: list[dict[str, Any]]) -> list[Epoch]:
    """Put the workers' epochs together; refuse those of a training that diverged."""
    epochs = []
    for number, of_workers in enumerate(zip(*(part["epochs"] for part in parts), strict=True), 1):
        loss, accuracy = _scores([(part["logs"], 1) for part in of_workers])
        if loss is not None and not math.isfinite(loss):
            raise process.WorkerError(f"the training diverged: a loss of {loss}", None, [])
        epochs.append(
            Epoch(
                epoch=number,
                steps=of_workers[0]["steps"],
                seconds=max(part["seconds"] for part in of_workers),
                loss=loss,
                accuracy=accuracy,
            )
        )
    return epochs


def _evaluation(parts: list[dict[str, Any]]) -> Evaluation | None:
    """Put together what the workers scored; None if nothing was."""
    tested = sum(part["examples"] for part in parts)
    if not tested:
        return None
    loss, accuracy = _scores([(part["logs"], part["examples"]) for part in parts])
    return Evaluation(examples=tested, loss=loss, accuracy=accuracy)


def _scores(of_workers: list[tuple[dict[str, float], int]]) -> tuple[float | None, float | None]:
    """Return loss and accuracy, means over workers with their logs and weights.

    None is what no worker has: a stage of a model that is not its last has neither.
    """

    def mean(names: tuple[str, ...]) -> float | None:
        found = [
            (logs[name], weight) for logs, weight in of_workers for name in names if name in logs
        ]
        total = sum(weight for _, weight in found)
        return sum(value * weight for value, weight in found) / total if total else None

    return mean(("loss",)), mean(_ACCURACIES)

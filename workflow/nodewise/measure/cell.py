"""Measure one cell: start its processes, receive their reports, write its record.

Only the workers import TensorFlow.
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import ValidationError

from nodewise.cluster import cluster_of, memory, process
from nodewise.cluster.channel import Channel, Message
from nodewise.cluster.lock import exclusive_machine
from nodewise.core.cell import Cell
from nodewise.core.errors import RefusedError
from nodewise.core.files import check_writable, project_path, write_text
from nodewise.core.progress import progress
from nodewise.core.schema import first_error
from nodewise.core.user_function import source_files
from nodewise.measure.block_job import BlockJob
from nodewise.measure.combine import combine
from nodewise.measure.environment import settle_environment
from nodewise.measure.inputs import checked_inputs, data_manifest
from nodewise.measure.period import Period, command_began
from nodewise.measure.provenance import data_source, provenance
from nodewise.measure.task import Task
from nodewise.models.facts import own_description
from nodewise.models.registry import cell_code
from nodewise.results.quiet_thresholds import MAX_BLOCKS
from nodewise.results.record import Failure, Measurement, Record, StartUp, record_json
from nodewise.strategies import STRATEGIES
from nodewise.study.measures import MEASURES
from nodewise.study.memory_fit import misfit

if TYPE_CHECKING:
    from nodewise.data.manifest import Manifest

Progress = Callable[[float], None]

# needed by every worker of a cell; includes the command line, in which workers find their launcher
_PRELOAD = (
    "nodewise.data.quiet_tensorflow",
    "nodewise.cli",
    "nodewise.measure.worker",
    "nodewise.measure.data_service",
)
# errors that end a measurement without a result; the record stores the reason
NO_RESULT = (RefusedError, process.WorkerError, MemoryError)


def measure(cell: Cell, *, output: Path, logs: Path, config: Path | None, command: str) -> Record:
    """Train `cell` on its prepared dataset and write its record to `output`.

    A cell that cannot be measured gets a record, too. Its status is `refused` if this machine does
    not permit what the cell asks for or the strategy cannot train its model, and `failed` if a
    worker did not finish. Only one cell is measured on a machine at a time.

    Args:
        cell: the cell to measure.
        output: the file of the record.
        logs: the folder of the workers' logs, `rank~R.log`.
        config: the study, if there is one.
        command: the command that repeats the measurement.

    Raises:
        UserError: a manifest cannot be read or is not permitted, or the prepared data changed.
        OSError: the record or a log cannot be written.
    """
    cluster, strategy = cluster_of(cell), STRATEGIES[cell.strategy]
    settle_environment(backend=strategy.backend)
    check_writable(output)
    source, pretrained = checked_inputs(cell, config)
    made = provenance(config=config, command=command, packages=strategy.packages)
    made = made.model_copy(update={"code_sha256": cell_code(cell), "measures": MEASURES})
    period, result, failure = Period(), None, None
    status: Literal["ok", "failed", "refused"] = "ok"
    try:
        _check_inputs(cell, source, fits_here=not cluster.remote)  # hosts check their own memory
        with exclusive_machine() as waited_s:
            began, period = command_began() + waited_s, Period()
            strategy.check_available()
            with cluster.open():
                nodes = {"network": cluster.network, "cpu_limit": cluster.cpu_limit}
                made = made.model_copy(update=nodes)
                weights = pretrained.file if pretrained else None
                task = Task(cell, cluster, data_manifest(cell), weights)
                if strategy.splits_model and cell.build:  # the project's own models can be split
                    work, limit_s = partial(check_model, task=task), cell.time_limit_s
                    process.Job(1, work, logs=logs, time_limit_s=limit_s, preload=_PRELOAD).run()
                with progress(cell.id) as show:
                    result = _run_processes(task, show, logs=logs, began=began)
    except NO_RESULT as error:
        status, failure = failure_of(error)
        if abs(set_s := period.clock_set_s()) > 1:
            reason = f"the system clock was set by {set_s:.0f} s meanwhile: {failure.reason}"
            failure = failure.model_copy(update={"reason": reason})
    record = Record(
        cell=cell,
        kind=cluster.kind,
        status=status,
        started_at=period.started_at,
        finished_at=period.finished_at(),
        data=data_source(source) if source.train_examples else None,
        weights=pretrained.source if pretrained else None,
        provenance=made,
        result=result,
        failure=failure,
    )
    write_text(output, record_json(record))
    return record


def _check_inputs(cell: Cell, source: "Manifest", *, fits_here: bool) -> None:
    """Check that data and, with `fits_here`, this machine's memory suffice; else RefusedError."""
    if source.refused is not None:
        raise RefusedError(source.refused)
    batch, examples = cell.global_batch, source.train_examples
    if batch > examples:
        raise RefusedError(f"a global batch of {batch} is larger than the {examples} examples")
    if fits_here and (misfits := misfit(cell, memory.machine_bytes(), cell.workers)):
        raise RefusedError(misfits)


def failure_of(error: BaseException) -> tuple[Literal["failed", "refused"], Failure]:
    """Return the status, `refused` or `failed`, and the reason for an error in `NO_RESULT`."""
    match error:
        case process.WorkerError():
            return "failed", Failure(reason=error.reason, rank=error.rank, log_tail=error.log_tail)
        case MemoryError():
            return "failed", Failure(reason="out of memory in the launcher", rank=None, log_tail=[])
    return "refused", Failure(reason=str(error), rank=None, log_tail=[])


def _run_processes(task: Task, show: Progress, *, logs: Path, began: float) -> Measurement:
    """Run the processes of a cell; return their measurement.

    Raises:
        RefusedError, WorkerError: there is none.
    """
    job = _CellJob(task, show, logs)
    parts = job.run()
    start_up = StartUp(
        imported_s=job.reached["imported"] - began,
        workers_ready_s=job.reached["ready"] - began,
        first_timed_step_s=job.reached["first_step"] - began,
    )
    try:
        return combine(task.cell, parts, start_up, job.blocks)
    except ValidationError as error:
        reason = f"what was measured fits no record: {first_error(error)}"
        raise process.WorkerError(reason) from error


def _files(task: Task) -> list[Path]:
    """Return the files of the project that a cell needs on another host, in addition to the code.

    Installed files of a user's own model and data are left out, because hosts have them, too.
    """
    cell = task.cell
    files = [Path(project_path(path.parent)) for path in (task.manifest, task.weights) if path]
    if library := STRATEGIES[cell.strategy].library:
        files.append(library.folder)
    if cell.build and own_description(cell).is_file():
        files.append(own_description(cell))
    specs = [spec for spec in (cell.build, cell.load) if spec]
    sources = [Path(file) for spec in specs for file in source_files(spec)]
    return files + [file for file in sources if "site-packages" not in file.parts]


def run_process(rank: int, channel: Channel, *, task: Task) -> Message:
    """Run the process with this rank: train, hold parameters or preprocess data."""
    from nodewise.measure import data_service, worker

    channel.send({"event": "imported", "at": time.monotonic()})
    if rank < task.cell.workers:
        return worker.train_cell(task, rank, channel)
    if rank < task.cell.workers + task.cell.servers:
        return worker.serve_parameters(task, rank, channel)
    return data_service.serve(task, rank, channel)


def check_model(rank: int, channel: Channel, *, task: Task) -> Message:
    """Check that the strategy can split the user's own model, before any node starts.

    Raises:
        RefusedError: it cannot.
    """
    from nodewise.measure import worker

    worker.check_model(task)
    return {}


class _CellJob(BlockJob):
    """The processes of a cell."""

    def __init__(self, task: Task, show: Progress, logs: Path) -> None:
        cell, cluster, weights = task.cell, task.cluster, task.weights
        super().__init__(
            cluster,
            cell.processes,
            partial(run_process, task=task),
            logs=logs,
            time_limit_s=cell.time_limit_s,
            preload=_PRELOAD,
            # whole epochs are not repeated: they are long, and accuracy needs no quiet machine
            most_blocks=MAX_BLOCKS if cell.extent.epochs is None else 1,
            host_job={
                "cell": cell.model_dump(mode="json"),
                "manifest": project_path(task.manifest),
                "weights": project_path(weights) if weights else None,
                "token": task.token,
            },
            host_files=_files(task) if cluster.remote else [],
        )
        self.reached: dict[str, float] = {}  # event -> when the last worker reached it
        self._show = show

    def on_message(self, rank: int, message: Message) -> None:
        if "progress" in message:
            self._show(message["progress"])
        elif "replica" in message:
            super().on_message(rank, message)
        elif not self.blocks:  # only events of the first block
            event = message["event"]
            self.reached[event] = max(self.reached.get(event, 0.0), message["at"])

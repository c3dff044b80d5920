"""The record of one cell: the border between the measuring and the reporting world.

One JSON file per cell, written once and whole, checked against the one schema below. Times are
seconds unless a name ends in `_us` (integer microseconds); sizes are bytes.
"""

import json
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal, NoReturn, Self

from pydantic import AfterValidator, AwareDatetime, Field, model_validator

from nodewise.core.cell import Cell, Frozen, Line, Name
from nodewise.core.errors import UserError, one_line
from nodewise.core.schema import read_json

SCHEMA_VERSION = 4

_DAY_US = 86_400_000_000  # a cell has at most a day
_SLACK = 1.05  # the whole and its steps are timed apart

Count = Annotated[int, Field(ge=0, le=10**18)]
Seconds = Annotated[float, Field(ge=0, le=10_000_000, allow_inf_nan=False)]
Micros = Annotated[int, Field(ge=0, le=_DAY_US)]
StepMicros = Annotated[int, Field(ge=1, le=_DAY_US)]
Joules = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Kind = Literal["measured", "emulated", "emulated soft"]
Origin = Literal["official", "mirror", "generated", "own"]


class DataSource(Frozen):
    """Which examples the cell really trained on. `note`: how they differ from the official ones."""

    dataset: Name
    origin: Origin
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    train_examples: Count
    test_examples: Count
    note: str | None = None


class WeightsSource(Frozen):
    """Where a model's pretrained weights came from; `random` if they could not be had."""

    name: Name
    origin: Literal["official", "mirror", "random"]
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")


class Provenance(Frozen):
    """What it takes to trust or repeat the measurement; nothing that identifies a person."""

    commit: str | None
    dirty: bool | None
    config_sha256: str | None
    lock_sha256: str | None
    versions: dict[str, str]
    cpu: str
    cores: int = Field(ge=1)
    memory_bytes: Count
    kernel: str
    network: str
    cpu_limit: str
    command: str


def _refuse(field: str, value: object, allowed: str) -> NoReturn:
    raise ValueError(f"{field}: {value} is not allowed, must be {allowed}")


def check_order(started_at: datetime, finished_at: datetime) -> None:
    """Check that what was measured did not finish before it started.

    Raises:
        ValueError: it did.
    """
    if finished_at < started_at:
        _refuse("finished_at", finished_at, f"{started_at} (started_at) or later")


class StartUp(Frozen):
    """Seconds since the rule started, at each milestone of the launch."""

    imported_s: Seconds
    workers_ready_s: Seconds
    first_timed_step_s: Seconds

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.workers_ready_s < self.imported_s:
            _refuse("workers_ready_s", self.workers_ready_s, "at least imported_s")
        if self.first_timed_step_s < self.workers_ready_s:
            _refuse("first_timed_step_s", self.first_timed_step_s, "at least workers_ready_s")
        return self


class Split(Frozen):
    """The parts of each split-form step of one worker; the lists have one entry a step.

    `wait_us` is the time in a barrier after the gradient: waiting for the slowest worker plus the
    cost of the barrier itself, whose idle median is `idle_barrier_us`; with a parameter server,
    what the server held the worker back. Where workers exchange in between computing (split dense
    layers, tensor parallelism) the barrier is before the gradient, and waiting for the slowest
    within the step is part of communicating, or of computing. `step_us` is timed around the parts,
    which should add up to it; records of before 24 November 2026 have none.
    """

    compute_us: list[Micros] = Field(min_length=1)
    wait_us: list[Micros]
    communicate_us: list[Micros]
    apply_us: list[Micros]
    step_us: list[StepMicros] = Field(default_factory=list)
    idle_barrier_us: Micros

    @model_validator(mode="after")
    def _equally_long(self) -> Self:
        steps = self.step_us or self.compute_us
        parts = (self.compute_us, self.wait_us, self.communicate_us, self.apply_us, steps)
        if len({len(part) for part in parts}) != 1:
            raise ValueError("compute, wait, communicate and apply must have one entry per step")
        return self


class WorkerResult(Frozen):
    """What one worker saw during the timed steps.

    `device` is what it computed with; none in records from before that was noted. `input_us` is
    the part of each step that it waited for its batch. `observed` is what a strategy notes of its
    own, such as the staleness of each update.
    """

    rank: Count
    device: Line | None = None
    shard_examples: Count
    step_us: list[StepMicros] = Field(min_length=1)
    input_us: list[Micros]
    elapsed_s: Seconds
    cpu_s: Seconds
    bytes_sent: Count
    bytes_received: Count
    bytes_retransmitted: Count
    split: Split | None
    observed: dict[Name, list[Finite]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _steps_make_the_whole(self) -> Self:
        steps = len(self.step_us)
        if len(self.input_us) != steps:
            _refuse("input_us", f"{len(self.input_us)} entries", f"{steps}, one for each step")
        stepping_s = sum(self.step_us) / 1e6
        if self.elapsed_s < stepping_s / _SLACK:
            _refuse("elapsed_s", self.elapsed_s, f"at least {stepping_s:g}, the sum of its steps")
        return self


class NodeUsage(Frozen):
    """What one emulated node used: CPU time, how long its limit held it back, bytes of its link.

    Bytes are those of whole frames, headers and all. `dropped_packets` are what the queues of the
    link refused. It is the normal state of a limited node to be throttled in every period.
    """

    cpu_s: Seconds
    periods: Count
    throttled_periods: Count
    throttled_s: Seconds
    sent_bytes: Count
    received_bytes: Count
    dropped_packets: Count

    def __sub__(self, earlier: "NodeUsage") -> "NodeUsage":
        """Return what was used between two readings."""
        then = earlier.model_dump()
        now = self.model_dump()
        return NodeUsage.model_validate({name: max(0, now[name] - then[name]) for name in now})


class Conditions(Frozen):
    """What a block of timed and split steps ran under; `window_s` seconds by the clock.

    `reference_before_us` and `reference_after_us` are the CPU time of one fixed piece of work:
    less is a faster machine. `stolen_s` and `foreign_cpu_s` are summed over the cores. `nodes` is
    empty unless the nodes are emulated. `outside` names the thresholds that the block failed.
    """

    window_s: Seconds
    reference_before_us: int = Field(ge=1)
    reference_after_us: int = Field(ge=1)
    stolen_s: Seconds
    foreign_cpu_s: Seconds
    nodes: list[NodeUsage]
    outside: list[str]


class Epoch(Frozen):
    """Training loss and accuracy over one epoch (or over the timed steps), all workers together.

    They are what Keras' `fit` says, None where it would say neither.
    """

    epoch: int = Field(ge=1)
    steps: int = Field(ge=1)
    seconds: Seconds
    loss: Finite | None
    accuracy: Share | None


class Evaluation(Frozen):
    """The model on the test examples, after whole epochs."""

    examples: int = Field(ge=1)
    loss: Finite | None
    accuracy: Share | None


class Measurement(Frozen):
    """The results of a cell that ran to its end.

    `conditions` are those of the block that was kept, `discarded` those of the blocks before it
    that were outside the thresholds and repeated.

    `energy_j` is what the machine's own meters counted over the timed steps, if it has any and the
    nodes are not emulated. `others_cpu_s` is the CPU time, from the first warm-up step to the last
    split one, of the nodes that do not train but hold parameters or preprocess.
    """

    trainable_parameters: Count
    total_parameters: Count
    payload_bytes: Count
    steps_per_epoch: int = Field(ge=1)
    whole_epochs: bool
    start_up: StartUp
    workers: list[WorkerResult] = Field(min_length=1)
    epochs: list[Epoch] = Field(min_length=1)
    test: Evaluation | None
    oversubscribed: bool
    energy_j: Joules | None
    others_cpu_s: Seconds
    conditions: Conditions
    discarded: list[Conditions]

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        total = self.total_parameters
        if self.trainable_parameters > total:
            _refuse("trainable_parameters", self.trainable_parameters, f"at most {total}, of all")
        for rank, worker in enumerate(self.workers):
            if worker.rank != rank:
                _refuse(f"workers[{rank}].rank", worker.rank, str(rank))
            steps = len(worker.step_us)
            if steps != self.steps:
                allowed = f"{self.steps}, those of all epochs"
                _refuse(f"workers[{rank}].step_us", f"{steps} steps", allowed)
        return self

    @property
    def steps(self) -> int:
        """Timed steps."""
        return sum(epoch.steps for epoch in self.epochs)

    @property
    def elapsed_s(self) -> float:
        """Seconds of the timed training, on the clock of the slowest worker."""
        return max(worker.elapsed_s for worker in self.workers)


# The exchanges of records before cells said theirs.
_EXCHANGES = {
    **dict.fromkeys(("custom_loop", "horovod", "mpi", "multi_worker_mirrored"), "ring"),
    **dict.fromkeys(("async_sgd", "parameter_server"), "server"),
    **dict.fromkeys(("hybrid", "model_parallel", "split_dense", "tensor_parallel"), "activations"),
    "compressed_sgd": "all-gather",
    "mirrored": "devices",
    "parameter_averaging": "averaging",
    "single": "none",
}


class Failure(Frozen):
    """Why a cell has no result: the reason in one line, the rank to blame, its last log lines."""

    reason: Annotated[str, Field(min_length=1), AfterValidator(one_line)]
    rank: int | None
    log_tail: list[str]


class Record(Frozen):
    """One measured cell. Exactly one of `result` and `failure` is there, as `status` says.

    `weights` is there if the model is meant to start from pretrained ones.
    """

    schema_version: Literal[4] = 4
    cell: Cell
    kind: Kind
    status: Literal["ok", "failed", "refused"]
    started_at: AwareDatetime
    finished_at: AwareDatetime
    data: DataSource | None
    weights: WeightsSource | None = None
    provenance: Provenance
    result: Measurement | None
    failure: Failure | None

    @property
    def exchange(self) -> str:
        """How the strategy brings gradients together."""
        cell = self.cell
        return cell.exchange or str(cell.options.get("collective", _EXCHANGES[cell.strategy]))

    @model_validator(mode="after")
    def _status_tells_the_truth(self) -> Self:
        if (self.status == "ok") != (self.result is not None and self.failure is None):
            raise ValueError("status ok needs a result and no failure")
        if self.status != "ok" and (self.failure is None or self.result is not None):
            raise ValueError(f"status {self.status} needs a failure and no result")
        if self.result is not None and self.data is None:
            raise ValueError("a result needs its data source")
        if self.result is not None and len(self.result.workers) != self.cell.workers:
            raise ValueError("a result needs one entry per worker")
        return self

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        check_order(self.started_at, self.finished_at)
        if self.result is not None and self.data is not None:
            _check_examples(self.result, self.data)
        return self


def _check_examples(result: Measurement, data: DataSource) -> None:
    for rank, worker in enumerate(result.workers):
        if worker.shard_examples > data.train_examples:
            allowed = f"at most {data.train_examples}, the training examples"
            _refuse(f"result.workers[{rank}].shard_examples", worker.shard_examples, allowed)
    if result.test is not None and result.test.examples > data.test_examples:
        allowed = f"at most {data.test_examples}, the test examples"
        _refuse("result.test.examples", result.test.examples, allowed)


def read_record(path: Path) -> Record:
    """Read and check one record file.

    Raises:
        UserError: the file is missing, too large, not JSON, or does not fit the schema.
    """
    return read_json(Record, path, "remove the file to have the cell measured again")


def recorded(cell: Cell, records: Path) -> Record | None:
    """Return the record of `cell` in the folder `records`; None if it is still to be measured.

    That is also so if it is of another version of this project, or was declared otherwise.
    """
    path = records / f"{cell.id}.json"
    try:
        record = read_record(path) if path.is_file() else None
    except UserError:
        return None
    return record if record and record.cell.declaration == cell.declaration else None


def record_json(record: Record) -> str:
    """Return the text of a record file: indented, but with each list of numbers on one line."""
    blocks = []
    for name, value in record.model_dump(mode="json").items():
        blocks.append(f" {json.dumps(name)}: {json.dumps(value, allow_nan=False)}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"

"""The schema of the record of one cell: the interface between measuring and reporting.

There is one JSON file per cell, written once, atomically, and checked against this schema. Times
are in seconds unless a name ends in `_us` (integer microseconds). Sizes are in bytes.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, AwareDatetime, Field, model_validator

from nodewise.core import exchanges
from nodewise.core.cell import Cell, Frozen, Line, Name
from nodewise.core.errors import UserError, one_line
from nodewise.core.exchanges import EXCHANGES, Exchange
from nodewise.core.schema import read_json

_DAY_US = 86_400_000_000  # a cell may take at most a day

Count = Annotated[int, Field(ge=0, le=10**18)]
Seconds = Annotated[float, Field(ge=0, le=10_000_000, allow_inf_nan=False)]
Micros = Annotated[int, Field(ge=0, le=_DAY_US)]
StepMicros = Annotated[int, Field(ge=1, le=_DAY_US)]
Joules = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]

Kind = Literal["measured", "emulated", "emulated soft"]
Origin = Literal["official", "mirror", "generated", "own"]


class DataSource(Frozen):
    """The examples that the cell actually trained on.

    `note` says how they differ from the official ones.
    """

    dataset: Name
    origin: Origin
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    train_examples: Count
    test_examples: Count
    note: str | None = None


class WeightsSource(Frozen):
    """The source of a model's pretrained weights; `random` if they were not available."""

    name: Name
    origin: Literal["official", "mirror", "random"]
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")


class Provenance(Frozen):
    """What is needed to trust or repeat the measurement. Nothing in it identifies a person.

    Older records have neither `code_sha256`, the digest of the code of the model and of the user's
    data, nor `measures`, the version of the measuring code.
    """

    commit: str | None
    dirty: bool | None
    config_sha256: str | None
    lock_sha256: str | None
    code_sha256: str | None = None
    measures: int | None = None
    versions: dict[str, str]
    cpu: str
    cores: int = Field(ge=1)
    memory_bytes: Count
    kernel: str
    network: str
    cpu_limit: str
    command: str


# The exchange of each strategy, for old records whose cells do not name it.
_EXCHANGES = {
    **dict.fromkeys(("custom_loop", "horovod", "mpi", "multi_worker_mirrored"), exchanges.RING),
    **dict.fromkeys(("async_sgd", "parameter_server"), exchanges.SERVER),
    **dict.fromkeys(("hybrid", "model_parallel"), exchanges.ACTIVATIONS),
    "compressed_sgd": exchanges.ALL_GATHER,
    "mirrored": exchanges.DEVICES,
    "parameter_averaging": exchanges.AVERAGING,
    "single": exchanges.NONE,
}


class Failure(Frozen):
    """Why a cell has no result: the reason in one line, the failed rank, and its last log lines."""

    reason: Annotated[str, Field(min_length=1), AfterValidator(one_line)]
    rank: int | None
    log_tail: list[str]


class StartUp(Frozen):
    """Seconds from the start of the rule to each milestone of the launch."""

    imported_s: Seconds
    workers_ready_s: Seconds
    first_timed_step_s: Seconds


class Split(Frozen):
    """The parts of each split step of one worker. Lists have one entry per step.

    `wait_us` is the time in a barrier after the gradient: waiting for the slowest worker, plus the
    cost of the barrier itself, whose median when idle is `idle_barrier_us`. With a parameter server
    it is the time that the server holds the worker back.

    `step_us` is timed around the parts, which should add up to it. Records from before 24 November
    2026 do not have it.
    """

    compute_us: list[Micros] = Field(min_length=1)
    wait_us: list[Micros]
    communicate_us: list[Micros]
    apply_us: list[Micros]
    step_us: list[StepMicros] = Field(default_factory=list)
    idle_barrier_us: Micros

    @model_validator(mode="after")
    def _equally_long(self) -> Self:
        around = self.step_us or self.compute_us
        parts = (self.compute_us, self.wait_us, self.communicate_us, self.apply_us, around)
        if len({len(part) for part in parts}) != 1:
            raise ValueError("each part must have one entry per step")
        return self


class WorkerResult(Frozen):
    """The measurements of one worker during the timed steps.

    `device` is the device that it computed on; None in old records. `input_us` is the time of all
    steps spent waiting for batches. `observed` holds values that a strategy notes itself, such as
    the staleness of each update.
    """

    rank: Count
    device: Line | None = None
    shard_examples: Count
    step_us: list[StepMicros] = Field(min_length=1)
    input_us: Micros
    elapsed_s: Seconds
    cpu_s: Seconds
    bytes_sent: Count
    bytes_received: Count
    bytes_retransmitted: Count
    split: Split | None
    observed: dict[Name, list[Finite]] = Field(default_factory=dict)


class NodeUsage(Frozen):
    """Resources that one emulated node used: CPU time, throttling by its limit, bytes on its link.

    Bytes are those of whole frames, including headers. `dropped_packets` counts packets dropped by
    the queues of the link. It is normal that a limited node is throttled in every period.
    """

    cpu_s: Seconds
    periods: Count
    throttled_periods: Count
    throttled_s: Seconds
    sent_bytes: Count
    received_bytes: Count
    dropped_packets: Count

    def __sub__(self, earlier: "NodeUsage") -> "NodeUsage":
        """Return the usage between two readings."""
        now, then = self.model_dump(), earlier.model_dump()
        return NodeUsage(**{name: max(0, now[name] - then[name]) for name in now})


class Conditions(Frozen):
    """The conditions of a block of timed and split steps, which took `window_s` wall seconds.

    `reference_before_us` and `reference_after_us` are the CPU time of a fixed piece of work: less
    means a faster machine. `stolen_s` and `foreign_cpu_s` are sums over the cores: steal time, and
    CPU time of other processes. `nodes` is empty unless nodes are emulated. `outside` has a message
    for each quiet-machine threshold that the block failed.
    """

    window_s: Seconds
    reference_before_us: int = Field(ge=1)
    reference_after_us: int = Field(ge=1)
    stolen_s: Seconds
    foreign_cpu_s: Seconds
    nodes: list[NodeUsage]
    outside: list[str]


class Epoch(Frozen):
    """Training loss and accuracy over one epoch (or over the timed steps) of all workers together.

    They are the values that Keras' `fit` reports; None where it would not report them.
    """

    epoch: int = Field(ge=1)
    steps: int = Field(ge=1)
    seconds: Seconds
    loss: Finite | None
    accuracy: Share | None


class Evaluation(Frozen):
    """Loss and accuracy of the model on the test examples, after whole epochs."""

    examples: int = Field(ge=1)
    loss: Finite | None
    accuracy: Share | None


class Measurement(Frozen):
    """The results of a successful cell.

    `conditions` are those of the block that was kept. `discarded` are those of earlier blocks that
    were repeated because they were outside the quiet-machine thresholds.

    `energy_j` is the energy of the timed steps by the machine's own meters; None if it has none or
    if nodes are emulated. `others_cpu_s` is the CPU time of nodes that do not train (parameter
    servers and preprocessors), from the first warm-up step to the last split step.
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
    energy_j: Joules | None = None
    others_cpu_s: Seconds
    conditions: Conditions
    discarded: list[Conditions]

    @model_validator(mode="after")
    def _one_time_per_step(self) -> Self:
        for rank, worker in enumerate(self.workers):
            if worker.rank != rank or len(worker.step_us) != self.steps:
                raise ValueError(f"workers[{rank}]: must be rank {rank}, with {self.steps} steps")
        return self

    @property
    def steps(self) -> int:
        """Number of timed steps."""
        return sum(epoch.steps for epoch in self.epochs)

    @property
    def elapsed_s(self) -> float:
        """Wall seconds of the timed training, of the slowest worker."""
        return max(worker.elapsed_s for worker in self.workers)


class Record(Frozen):
    """The record of one cell. It has a `result` if `status` is ok, and else a `failure`.

    `weights` is set if the model is meant to start from pretrained weights.
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
    def exchange(self) -> Exchange:
        """How the strategy combines what the nodes computed.

        Raises:
            UserError: no installed package declares this exchange.
        """
        named = self.cell.exchange or self.cell.options.get("collective")
        return EXCHANGES.find(str(named)) if named else _EXCHANGES[self.cell.strategy]

    @model_validator(mode="after")
    def _status_tells_the_truth(self) -> Self:
        ok = self.status == "ok"
        if bool(self.result) != ok or bool(self.failure) == ok or (ok and not self.data):
            raise ValueError("status ok needs data and a result, any other status a failure")
        if self.result and len(self.result.workers) != self.cell.workers:
            raise ValueError("result.workers: must have one entry per worker")
        return self


def read_record(path: Path) -> Record:
    """Read and check one record file.

    Raises:
        UserError: the file is missing, too large, not JSON, or does not fit the schema.
    """
    return read_json(Record, path, "remove the file to have the cell measured again")


def recorded(cell: Cell, records: Path) -> Record | None:
    """Return the record of `cell` in the folder `records`, or None if it has yet to be measured.

    Records that do not fit the schema of this version, or whose cell was declared differently, do
    not count.
    """
    path = records / f"{cell.id}.json"
    with suppress(UserError):
        if path.is_file() and (record := read_record(path)).cell.declaration == cell.declaration:
            return record
    return None


def record_json(record: Record) -> str:
    """Return the text of a record file: one line per top-level field, in compact JSON."""
    lines = [
        f' "{name}": {json.dumps(value, allow_nan=False, separators=(",", ":"))}'
        for name, value in record.model_dump(mode="json").items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"

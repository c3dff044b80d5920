"""The schema of the record of one cell: the interface between measuring and reporting.

There is one JSON file per cell, written once, atomically, and checked against this schema. Times
are in seconds unless a name ends in `_us` (integer microseconds). Sizes are in bytes.
"""

import json
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, AwareDatetime, Field, model_validator

from nodewise.core.cell import Cell, Frozen, Name
from nodewise.core.errors import UserError, one_line
from nodewise.core.exchanges import (
    ACTIVATIONS,
    ALL_GATHER,
    AVERAGING,
    DEVICES,
    EXCHANGES,
    NONE,
    RING,
    SERVER,
    Exchange,
)
from nodewise.core.schema import read_json
from nodewise.results.measurement import Measurement
from nodewise.results.quantities import Count

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
    """What is needed to trust or repeat the measurement. Nothing in it identifies a person."""

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


# The exchange of each strategy, for old records whose cells do not name it.
_EXCHANGES = {
    **dict.fromkeys(("custom_loop", "horovod", "mpi", "multi_worker_mirrored"), RING),
    **dict.fromkeys(("async_sgd", "parameter_server"), SERVER),
    **dict.fromkeys(("hybrid", "model_parallel"), ACTIVATIONS),
    "compressed_sgd": ALL_GATHER,
    "mirrored": DEVICES,
    "parameter_averaging": AVERAGING,
    "single": NONE,
}


class Failure(Frozen):
    """Why a cell has no result: the reason in one line, the failed rank, and its last log lines."""

    reason: Annotated[str, Field(min_length=1), AfterValidator(one_line)]
    rank: int | None
    log_tail: list[str]


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
        complete = self.result is not None and self.data is not None and self.failure is None
        failed = self.result is None and self.failure is not None
        if not (complete if self.status == "ok" else failed):
            raise ValueError("status ok needs data and a result, any other status a failure")
        if self.result is not None and len(self.result.workers) != self.cell.workers:
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
    try:
        record = read_record(path) if path.is_file() else None
    except UserError:
        return None
    return record if record and record.cell.declaration == cell.declaration else None


def record_json(record: Record) -> str:
    """Return the text of a record file: one line per top-level field, in compact JSON."""
    lines = [
        f' "{name}": {json.dumps(value, allow_nan=False, separators=(",", ":"))}'
        for name, value in record.model_dump(mode="json").items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"

"""The result of a calibration: what emulated nodes or hosts really gave, launch by launch.

One JSON file per study, written whole, checked against the one schema below. It holds what was
measured and nothing that follows from it; fits and verdicts are made by `predict.calibration`.
All times are seconds on the wall; an emulated node's own time is `cluster.share` times as long.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Self

from pydantic import AwareDatetime, Field, model_validator

from nodewise.core.cell import MAX_NODES, Cluster, Frozen, Line
from nodewise.core.errors import UserError
from nodewise.core.schema import read_json
from nodewise.results.measurement import Conditions
from nodewise.results.quantities import Count, Positive, Seconds, check_order
from nodewise.results.record import Failure, Kind, Provenance

# Whose all-reduce: TensorFlow's ring, or that of `strategies.transport.Direct`, on sockets alone.
Collective = Literal["ring", "direct"]
COLLECTIVES: dict[Collective, str] = {
    "ring": "by TensorFlow's ring",
    "direct": "by sockets alone",
}


class Busy(Frozen):
    """How much CPU one worker got while it did nothing but compute."""

    cpu_s: Seconds
    wall_s: Positive

    @property
    def share(self) -> float:
        """CPU seconds per second on the wall: the share of a core that the node had."""
        return self.cpu_s / self.wall_s


class Transfer(Frozen):
    """One TCP stream from a node to another, as the receiver saw it.

    `segment_bytes` is the payload of one full frame of `frame_bytes`, Ethernet header included.
    `round_trip_s` is the median time of a byte there and back, before the stream; None if unknown.
    """

    payload_bytes: int = Field(ge=1)
    seconds: Positive
    segment_bytes: int = Field(ge=1)
    frame_bytes: int = Field(ge=1)
    round_trip_s: Positive | None = None

    @model_validator(mode="after")
    def _frames_hold_segments(self) -> Self:
        if self.segment_bytes >= self.frame_bytes:
            raise ValueError("frame_bytes must be more than segment_bytes")
        return self

    @property
    def bits_per_s(self) -> float:
        """Payload bits per second."""
        return 8 * self.payload_bytes / self.seconds

    @property
    def payload_share(self) -> float:
        """What headers leave of the link: payload bytes per byte of a full frame."""
        return self.segment_bytes / self.frame_bytes


class Stream(Transfer):
    """A stream between two hosts; `ends` are the labels of the sender and the receiver."""

    ends: list[Line] = Field(min_length=2, max_length=2)


class AllReduce(Frozen):
    """`repeats` all-reduces of one payload, one right after the other.

    `seconds` are from when the last worker began to when the last one had all sums. Hosts have
    clocks of their own: there they are the longest that a worker took, after a barrier.
    `bytes_sent` is TCP payload by rank, over all repeats and the barrier that closes them.
    """

    collective: Collective = "ring"
    payload_bytes: int = Field(ge=4)
    repeats: int = Field(ge=1)
    seconds: Positive
    bytes_sent: list[Count] = Field(min_length=2)

    @property
    def seconds_each(self) -> float:
        """Seconds of one all-reduce."""
        return self.seconds / self.repeats


class Launch(Frozen):
    """One launch of `nodes` fresh workers, in the order of measuring.

    `transfer`, from node 0 to node 1, is there in launches of two nodes, `all_reduces` in those of
    two or more. `discarded` are the conditions of the launches before it that were outside the
    thresholds and repeated.
    """

    nodes: int = Field(ge=1, le=MAX_NODES)
    repeat: Count
    started_at: AwareDatetime
    seconds: Seconds
    busy: list[Busy]
    transfer: Transfer | None
    all_reduces: list[AllReduce]
    conditions: Conditions
    discarded: list[Conditions]

    @model_validator(mode="after")
    def _one_entry_per_worker(self) -> Self:
        if len(self.busy) != self.nodes:
            raise ValueError("busy needs one entry per node")
        if any(len(block.bytes_sent) != self.nodes for block in self.all_reduces):
            raise ValueError("bytes_sent needs one entry per node")
        return self


class Calibration(Frozen):
    """One calibration. It has launches and no failure if `status` is ok, else the reverse.

    `streams` are those between hosts, one after another, before the launches: of every pair, or of
    neighbours where there are many hosts. Emulated nodes have none.
    """

    schema_version: Literal[1] = 1
    study: str
    cluster: Cluster
    kind: Kind
    status: Literal["ok", "failed", "refused"]
    started_at: AwareDatetime
    finished_at: AwareDatetime
    provenance: Provenance
    streams: list[Stream] = Field(default_factory=list)
    launches: list[Launch]
    failure: Failure | None

    @model_validator(mode="after")
    def _status_tells_the_truth(self) -> Self:
        if (self.status == "ok") != (self.failure is None) or (self.failure is None) == (
            not self.launches
        ):
            raise ValueError("status ok needs launches and no failure, any other the reverse")
        check_order(self.started_at, self.finished_at)
        return self


def read_calibration(path: Path) -> Calibration:
    """Read and check one result of `nodewise calibrate`.

    Raises:
        UserError: the file is missing, too large, not JSON, or does not fit the schema.
    """
    return read_json(Calibration, path, "remove the file to have the cluster calibrated again")


def read_calibrations(paths: Sequence[Path]) -> list[Calibration]:
    """Read what `nodewise calibrate` wrote, for one study or several, on one machine or several.

    Raises:
        UserError: a file is missing or invalid, or two are of one study on one machine.
    """
    found: dict[tuple[str, str], Calibration] = {}
    for path in paths:
        calibration = read_calibration(path)
        study, machine = calibration.study, calibration.provenance.cpu
        if (study, machine) in found:
            raise UserError(f"{path}: another one is of the study {study} on {machine}, too")
        found[study, machine] = calibration
    return list(found.values())

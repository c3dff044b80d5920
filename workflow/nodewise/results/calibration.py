"""The schema of a calibration: what emulated nodes or hosts really delivered, by launch.

There is one JSON file per study, written atomically and checked against this schema. It holds
measurements only. All times are in wall seconds; multiply by `cluster.share` to get the own time of
an emulated node.
"""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Literal, Self

from pydantic import AwareDatetime, Field, model_validator

from nodewise.core.cell import MAX_NODES, AnyCluster, Frozen, Line
from nodewise.core.errors import UserError
from nodewise.core.schema import read_json
from nodewise.results.record import Conditions, Count, Failure, Kind, Positive, Provenance, Seconds

# Implementation of the all-reduce: the ring of TensorFlow, or `strategies.transport.Peers.total`.
Collective = Literal["ring", "direct"]


class Busy(Frozen):
    """The CPU time that one worker got while it was busy computing."""

    cpu_s: Positive
    wall_s: Positive

    @property
    def share(self) -> float:
        """The share of a core that the node got: CPU seconds per wall second."""
        return self.cpu_s / self.wall_s


class Transfer(Frozen):
    """One TCP stream from one node to another, measured by the receiver.

    `segment_bytes` is the payload of a full frame of `frame_bytes`, which includes the Ethernet
    header. `round_trip_s` is the shortest round trip of a packet, as the kernel saw it; in older
    files it is the median round trip of one byte. None if unknown.
    """

    payload_bytes: int = Field(ge=1)
    seconds: Positive
    segment_bytes: int = Field(ge=1)
    frame_bytes: int = Field(ge=1)
    round_trip_s: Positive | None = None

    @property
    def bits_per_s(self) -> float:
        """Payload bits per second."""
        return 8 * self.payload_bytes / self.seconds

    @property
    def payload_share(self) -> float:
        """The share of payload in a full frame; the rest are headers."""
        return self.segment_bytes / self.frame_bytes


class Stream(Transfer):
    """A stream between two hosts. `ends` are the labels of the sender and the receiver."""

    ends: list[Line] = Field(min_length=2, max_length=2)


class AllReduce(Frozen):
    """A block of `repeats` consecutive all-reduces of one payload.

    `seconds` is measured from the start of the last worker to the end of the last worker. Hosts do
    not share a clock, so there it is the longest time of a worker after a barrier. `bytes_sent` is
    the TCP payload of each rank in all repeats and in the barrier at their end.
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
    """One launch of `nodes` new worker processes.

    Launches of two nodes have a `transfer` from node 0 to node 1. Launches of two or more
    nodes have `all_reduces`. `discarded` holds the conditions of measurements that were repeated
    because they were outside the quiet-machine thresholds.
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


class Calibration(Frozen):
    """One calibration. It has launches if `status` is ok, and else a failure.

    `streams` are the streams between hosts, measured one after another. Emulated nodes have none.
    """

    schema_version: Literal[1] = 1
    study: str
    cluster: AnyCluster
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
        ok = self.status == "ok"
        if bool(self.launches) != ok or (self.failure is None) != ok:
            raise ValueError("status ok needs launches, any other status a failure")
        return self


def read_calibrations(paths: Sequence[Path]) -> list[Calibration]:
    """Read results of `nodewise calibrate`, of any number of studies and machines.

    Raises:
        UserError: a file is missing or invalid, or two files are of one study on one machine.
    """
    found: dict[tuple[str, str], Calibration] = {}
    for path in paths:
        calibration = read_calibration(path)
        key = calibration.study, calibration.provenance.cpu
        if found.setdefault(key, calibration) is not calibration:
            raise UserError(f"{path}: duplicate calibration of study {key[0]} on {key[1]}")
    return list(found.values())


def read_calibration(path: Path) -> Calibration:
    """Read and check one result of `nodewise calibrate`.

    Raises:
        UserError: the file is missing, too large, not JSON, or does not fit the schema.
    """
    return read_json(Calibration, path, "remove the file to have the cluster calibrated again")


def ring_times(calibration: Calibration) -> list[dict[str, float]]:
    """Return the times of all-reduces in a ring, one row per `nodes` and `payload_bytes`.

    `seconds` is the median of one all-reduce over the launches, and `sent_bytes` is 2(n−1)/n·S,
    what each node sends meanwhile.
    """
    times = defaultdict[tuple[int, int], list[float]](list)
    for launch in calibration.launches:
        for block in launch.all_reduces:
            if block.collective == "ring":
                own_s = calibration.cluster.share * block.seconds_each
                times[launch.nodes, block.payload_bytes].append(own_s)
    rows = [(n, size, median(each), 2 * (1 - 1 / n) * size) for (n, size), each in times.items()]
    names = ("nodes", "payload_bytes", "seconds", "sent_bytes")
    return [dict(zip(names, row, strict=True)) for row in rows]

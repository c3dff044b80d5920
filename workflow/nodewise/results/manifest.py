"""The manifest of a folder of published records: its content, and how that was measured."""

from typing import Literal

from pydantic import AwareDatetime, Field

from nodewise.core.cell import Frozen
from nodewise.results.record import Count

MANIFEST = "manifest.json"


class PublishedExperiment(Frozen):
    """One experiment: its numbers of points and of launches, summed over points."""

    name: str
    points: Count
    launches: Count


class LeftOut(Frozen):
    """An experiment or a point that was measured but not published, and the reason."""

    what: str
    why: str


class Manifest(Frozen):
    """The content of a folder of records. `measured_s` is the total time of its cells."""

    schema_version: Literal[1] = 1
    study: str
    machine: str
    cores: int = Field(ge=1)
    memory_bytes: Count
    commits: list[str]
    calibration_sha256: str | None
    first_started_at: AwareDatetime
    last_finished_at: AwareDatetime
    measured_s: float = Field(ge=0)
    experiments: list[PublishedExperiment]
    left_out: list[LeftOut]

"""Import logs of MLPerf training, which have lines `:::MLLOG {…}`.

Source: https://github.com/mlcommons/logging
"""

import re
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import BaseModel, FiniteFloat, ValidationError

from nodewise.core.errors import UserError
from nodewise.results.importers import IMPORTERS
from nodewise.results.log_format import starts_with, text_of

_LINE = re.compile(r"^.*?:::MLLOG (\{.*\})\s*$", re.MULTILINE)
_COLUMNS = {  # what a run says once, by the column that it fills
    "submission_benchmark": "curve",
    "global_batch_size": "global_batch",
    "number_of_ranks": "nodes",
    "number_of_nodes": "hosts",
    "train_samples": "examples",
}
_OF_RUN = ("global_batch_size", "submission_benchmark")


class _Metadata(BaseModel):
    status: Any = "success"
    epoch_count: FiniteFloat | None = None


class _Event(BaseModel):
    key: str
    value: Any
    time_ms: FiniteFloat
    metadata: _Metadata | None = None


class MlperfLog:
    """Importer of MLPerf logs.

    Epochs are repeats. Without epochs, the whole run to the target quality is used, if it got
    there. Times are from start to stop and include evaluations in between.
    """

    def sniff(self, path: Path) -> bool:
        """Return whether the file has such a line."""
        return starts_with(path, _LINE)

    def read(self, path: Path) -> pd.DataFrame:
        """Return one row per epoch, or one row for the whole run.

        Raises:
            UserError: a line is damaged, neither an epoch nor the run was completed, or another run
                follows.
        """
        said: dict[str, Any] = {}
        spans: dict[str, list[float]] = {"epoch": [], "run": []}
        started: dict[str, _Event] = {}
        stopped = False
        for number, line in enumerate(text_of(path).split("\n"), 1):
            match = _LINE.match(line)
            if match is None:
                continue
            try:
                event = _Event.model_validate_json(match[1])
            except ValidationError:
                raise UserError(
                    f"{path}: line {number}: is not a line of an MLPerf log: {match[1][:60]}"
                ) from None
            other = stopped and event.key == "run_start"
            if event.key in _COLUMNS and event.value not in (None, ""):
                other |= event.key in _OF_RUN and said.get(event.key, event.value) != event.value
                said[event.key] = event.value
            if other:
                raise UserError(
                    f"{path}: line {number}: another run begins; give each its own file"
                )
            stopped |= event.key == "run_stop"
            name, _, end = event.key.rpartition("_")
            if name in spans and end == "start":
                started[name] = event
            elif name in spans and end == "stop" and name in started:
                spans[name] += _seconds(started.pop(name), event)
        times = spans["epoch"] or spans["run"]
        if not times:
            raise UserError(
                f"{path}: neither an epoch nor the run came to its end, or it was aborted"
            )
        row = {_COLUMNS[key]: _value(path, key, value) for key, value in said.items()}
        if not spans["epoch"]:
            row.pop("examples", None)  # a run has several epochs
        return pd.DataFrame([row | {"epoch_time_s": time} for time in times])


IMPORTERS.add("mlperf_log", MlperfLog())


def _value(path: Path, key: str, value: Any) -> str | float:  # noqa: ANN401
    try:
        return str(value) if key == "submission_benchmark" else float(value)
    except (TypeError, ValueError, OverflowError):
        raise UserError(f"{path}: {key} must be a number, not {value!r:.40}") from None


def _seconds(start: _Event, stop: _Event) -> list[float]:
    """Return the seconds of an epoch or run; none if it did not reach its target.

    Some programs time several epochs together.
    """
    together = (start.metadata or _Metadata()).epoch_count or 1
    seconds = (stop.time_ms - start.time_ms) / 1000 / together
    reached = (stop.metadata or _Metadata()).status == "success"
    return [seconds] if reached and seconds > 0 else []

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
_NUMBERS = {  # what a run says once, by the column that it fills
    "global_batch_size": "global_batch",
    "number_of_ranks": "nodes",
    "number_of_nodes": "hosts",
    "train_samples": "examples",
}
_OF_RUN = ("global_batch_size", "submission_benchmark")


class _Event(BaseModel):
    key: str
    value: Any
    time_ms: FiniteFloat
    metadata: dict[str, Any] | None = None
    location: str = ""


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
        events = [
            _event(f"{path}: line {number}", match[1])
            for number, line in enumerate(text_of(path).split("\n"), 1)
            if (match := _LINE.match(line))
        ]
        _check_one_run(events)
        epochs = _spans(events, "epoch")
        times = epochs or _spans(events, "run")
        if not times:
            raise UserError(
                f"{path}: neither an epoch nor the run came to its end, or it was aborted"
            )
        row: dict[str, Any] = {}
        for event in events:
            if event.value in (None, ""):
                continue
            if event.key == "submission_benchmark":
                row["curve"] = str(event.value)
            elif event.key in _NUMBERS and (epochs or event.key != "train_samples"):
                row[_NUMBERS[event.key]] = _number(event.location, event.key, event.value)
        return pd.DataFrame([row | {"epoch_time_s": time} for time in times])


IMPORTERS.add("mlperf_log", MlperfLog())


def _event(location: str, text: str) -> _Event:
    try:
        return _Event.model_validate_json(text).model_copy(update={"location": location})
    except ValidationError:
        raise UserError(f"{location}: is not a line of an MLPerf log: {text[:60]}") from None


def _number(location: str, name: str, value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise UserError(f"{location}: {name} must be a number, not {value!r:.40}") from None


def _check_one_run(events: list[_Event]) -> None:
    """Check that all events are of one run. Several ranks may repeat them.

    Raises:
        UserError: a run starts after one stopped, or with another batch or benchmark.
    """
    settings: dict[str, Any] = {}
    stopped = False
    for event in events:
        stopped = stopped or event.key == "run_stop"
        other = stopped and event.key == "run_start"
        if event.key in _OF_RUN:
            other = settings.setdefault(event.key, event.value) != event.value
        if other:
            raise UserError(f"{event.location}: another run begins; give each its own file")


def _spans(events: list[_Event], name: str) -> list[float]:
    """Return the seconds per epoch or run between events `name`_start and `name`_stop.

    Some programs time several epochs together. A run that did not reach its target does not count.
    """
    spans: list[float] = []
    start: _Event | None = None
    for event in events:
        metadata = event.metadata or {}
        if event.key == f"{name}_start":
            start = event
        elif event.key == f"{name}_stop" and start is not None:
            together = (start.metadata or {}).get("epoch_count", 1)
            count = _number(start.location, "epoch_count", together) or 1.0
            if metadata.get("status", "success") == "success":
                spans.append((event.time_ms - start.time_ms) / 1000 / count)
            start = None
    return [span for span in spans if span > 0]

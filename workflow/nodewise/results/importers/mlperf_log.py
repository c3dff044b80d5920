"""Import logs of MLPerf training, which have lines `:::MLLOG {…}`.

Source: https://github.com/mlcommons/logging
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.results.importers import IMPORTERS, starts_with, text_of

_LINE = re.compile(r"^.*?:::MLLOG (\{.*\})\s*$", re.MULTILINE)


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
        lines = enumerate(text_of(path).split("\n"), 1)
        events = [
            _event(f"{path}: line {number}", match[1])
            for number, line in lines
            if (match := _LINE.match(line))
        ]
        _check_one_run(events)
        values = {event.key: event for event in events if event.value not in (None, "")}
        epochs = _spans(events, "epoch")
        times = epochs or _spans(events, "run")
        if not times:
            raise UserError(
                f"{path}: neither an epoch nor the run came to its end, or it was aborted"
            )
        row: dict[str, Any] = {}
        if "global_batch_size" in values:
            row["global_batch"] = values["global_batch_size"].number()
        if "submission_benchmark" in values:
            row["curve"] = str(values["submission_benchmark"].value)
        if epochs and "train_samples" in values:
            row["examples"] = values["train_samples"].number()
        return pd.DataFrame([row | {"epoch_time_s": time} for time in times])


IMPORTERS.add("mlperf_log", MlperfLog())


@dataclass(frozen=True)
class _Event:
    location: str
    key: str
    at: float
    value: Any
    metadata: dict[str, Any]

    def number(self) -> float:
        """Return the value, if it is a number."""
        return _number(self.location, self.key, self.value)

    @property
    def epochs(self) -> float:
        """The number of epochs that begin here: some programs time several together."""
        return _number(self.location, "epoch_count", self.metadata.get("epoch_count", 1)) or 1.0


def _number(location: str, key: str, value: Any) -> float:  # noqa: ANN401 (whatever JSON holds)
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise UserError(f"{location}: {key} must be a number, not {value!r:.40}") from None


def _event(location: str, text: str) -> _Event:
    try:
        event = json.loads(text)
        metadata = dict(event.get("metadata") or {})
        at = float(event["time_ms"])
        return _Event(location, str(event["key"]), at, event["value"], metadata)
    except (ValueError, KeyError, TypeError, OverflowError, AttributeError, RecursionError):
        raise UserError(f"{location}: is not a line of an MLPerf log: {text[:60]}") from None


def _check_one_run(events: list[_Event]) -> None:
    """Check that all events are of one run. Several ranks may repeat them.

    Raises:
        UserError: a run starts after one stopped, or with another batch or benchmark.
    """
    settings: dict[str, Any] = {}
    stopped = False
    for event in events:
        stopped = stopped or event.key == "run_stop"
        if event.key in ("global_batch_size", "submission_benchmark"):
            other = settings.setdefault(event.key, event.value) != event.value
        else:
            other = stopped and event.key == "run_start"
        if other:
            raise UserError(f"{event.location}: another run begins; give each its own file")


def _spans(events: list[_Event], name: str) -> list[float]:
    """Return the seconds per epoch or run between events `name`_start and `name`_stop.

    A run that did not reach its target does not count.
    """
    spans: list[float] = []
    start: _Event | None = None
    for event in events:
        if event.key == f"{name}_start":
            start = event
        elif event.key == f"{name}_stop" and start is not None:
            if event.metadata.get("status", "success") == "success":
                spans.append((event.at - start.at) / 1000 / start.epochs)
            start = None
    return [span for span in spans if span > 0]

"""Import logs of MLPerf training, which have lines `:::MLLOG {…}`.

Source: https://github.com/mlcommons/logging
"""

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.results.importers import IMPORTERS, starts_with, text_of

_LINE = re.compile(r"^.*?:::MLLOG (\{.*\})\s*$", re.MULTILINE)


class MlperfLog:
    """Importer of MLPerf logs.

    Epochs are repeats. Without epochs, the whole run to the target quality is used. Times are from
    start to stop and include evaluations in between.
    """

    def sniff(self, path: Path) -> bool:
        """Return whether the file has such a line."""
        return starts_with(path, _LINE)

    def read(self, path: Path) -> pd.DataFrame:
        """Return one row per epoch, or one row for the whole run.

        Raises:
            UserError: a line is damaged, or neither an epoch nor the run was completed.
        """
        events = [_event(path, line) for line in _LINE.findall(text_of(path))]
        values: dict[str, Any] = {event["key"]: event["value"] for event in events}
        times = _spans(events, "epoch") or _spans(events, "run")
        if not times:
            raise UserError(f"{path}: neither an epoch nor the run came to its end")
        row: dict[str, Any] = {}
        if values.get("global_batch_size"):
            row["global_batch"] = float(values["global_batch_size"])
        if values.get("submission_benchmark"):
            row["curve"] = str(values["submission_benchmark"])
        if values.get("train_samples") and _spans(events, "epoch"):
            row["examples"] = float(values["train_samples"])
        return pd.DataFrame([row | {"epoch_time_s": time} for time in times])


IMPORTERS.add("mlperf_log", MlperfLog())


def _event(path: Path, text: str) -> dict[str, Any]:
    try:
        event = json.loads(text)
        return {"key": str(event["key"]), "at": float(event["time_ms"]), "value": event["value"]}
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path}: is not a line of an MLPerf log: {text[:60]}") from None


def _spans(events: list[dict[str, Any]], name: str) -> list[float]:
    """Return the seconds between each pair of events `name`_start and `name`_stop."""
    spans: list[float] = []
    start: float | None = None
    for event in events:
        if event["key"] == f"{name}_start":
            start = float(event["at"])
        elif event["key"] == f"{name}_stop" and start is not None:
            spans.append((event["at"] - start) / 1000)
            start = None
    return [span for span in spans if span > 0]

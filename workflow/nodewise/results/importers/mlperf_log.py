"""Import logs of MLPerf training, which have lines `:::MLLOG {…}`.

Epochs, or blocks of epochs, are repeats, without the first of several. Without them, the whole run
to the target quality is used, if it got there. Times are from start to stop and include evaluations
in between.

Source: https://github.com/mlcommons/logging
"""

import re
from pathlib import Path

import numpy as np
import pandas as pd

from nodewise.results.importers import IMPORTERS
from nodewise.results.log_format import LogFormat

_THROUGHPUT = re.compile(r'"throughput": ([\d.]+)')
_COUNT = re.compile(r'"samples_count": (\d+)')
_EPOCHS = re.compile(r'"epoch_num": (\d{4,})')  # more than any run has: a count of samples
_STOP = re.compile(r'"(?:epoch|block|run)_stop"')
_CLOSE = 0.05
_INCLUDES = 1.5  # a throughput may leave out evaluations, which the time of an epoch includes
_WHOLE = 0.9  # share of a run from which its only epoch is the run


class MlperfLog(LogFormat):
    """An importer that checks `train_samples`: some programs log batches, or what they planned."""

    def rows_of(self, text: str, path: Path) -> pd.DataFrame:
        """Return one row per epoch, or one for the whole run; see `LogFormat`.

        `examples` are multiplied by the batch if only so they agree with the logged throughputs. If
        they agree in neither way, the throughput is used. An epoch that is the whole run has the
        examples that were trained, if these are logged: as counts, or as `train_samples` at its
        end, where those before are planned.
        """
        table = super().rows_of(text, path)
        notes = table.attrs.pop("notes")
        samples = list(re.finditer(_setting("train_samples", "examples"), text, re.MULTILINE))
        if samples:
            table["examples"] = float(samples[-1]["examples"])
        rates = [float(rate) for rate in _THROUGHPUT.findall(text)]
        run = re.search(_span("run"), text, re.MULTILINE)
        run_s = (float(run["stop_ms"]) - float(run["start_ms"])) / 1e3 if run else np.inf
        if len(table) == 1 and table["epoch_time_s"].item() > _WHOLE * run_s:
            at_end = [one["examples"] for one in samples if _STOP.search(text, 0, one.start())]
            trained = _COUNT.findall(text) or at_end or _EPOCHS.findall(text)
            table["examples"] = max(map(float, trained), default=np.nan)
            notes.append("the time is that of the whole run to its target quality")
        if rates and {"examples", "global_batch"} <= {*table}:
            each = np.median(rates) * (table["epoch_time_s"] / table["examples"]).median()
            if abs(each / table["global_batch"].median() - 1) < _CLOSE:
                table["examples"] *= table["global_batch"]
                notes.append("train_samples count batches, as the logged throughputs show")
            elif not 1 / _INCLUDES < each < _INCLUDES:
                table = table.drop(columns=["examples", "epoch_time_s"])
                table["samples_per_s"] = np.median(rates)
                notes.append("the logged throughput is used, which is not that of train_samples")
        table = table.dropna(axis="columns")
        table.attrs["notes"] = notes
        return table


def _event(key: str, time: str = r"\d+") -> str:
    return rf'^:::MLLOG \{{.*"time_ms": {time}, .*"key": "{key}", '


def _span(name: str, needs_count: str = "?") -> str:
    """Return the pattern of an epoch or run; some programs time several epochs together."""
    start = _event(f"{name}_start", r"(?P<start_ms>[\d.]+)")
    stop = _event(f"{name}_stop", r"(?P<stop_ms>[\d.]+)")
    return rf'{start}(?:.*"epoch_count": (?P<epochs>\d+)){needs_count}[\s\S]*?{stop}'


def _setting(key: str, field: str, value: str = r"[\d.]+") -> str:
    return rf'{_event(key)}"value": "?(?P<{field}>{value})\b'


IMPORTERS.add(
    "mlperf_log",
    MlperfLog(
        start=r"^:::MLLOG \{",
        settings=(
            _setting("submission_benchmark", "curve", r"\w+"),
            _setting("global_batch_size", "global_batch"),
            _setting("number_of_ranks", "devices"),
            _setting("number_of_nodes", "hosts"),
        ),
        refused={
            rf"{_event('run_stop')}[\s\S]*{_event('run_start')}": "another run begins after it"
        },
        result=_span("epoch"),
        warm_up=1,
        others=(_span("block", needs_count=""), _span("run") + r'.*"status": "success"'),
        example=':::MLLOG {…, "key": "epoch_stop", …}',
    ),
)

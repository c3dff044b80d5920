"""Import logs of MLPerf training, which have lines `:::MLLOG {…}`.

Epochs are repeats, without the first of several. Without epochs, the whole run to the target
quality is used, if it got there. Times are from start to stop and include evaluations in between.

Source: https://github.com/mlcommons/logging
"""

import re
from pathlib import Path

import numpy as np
import pandas as pd

from nodewise.results.importers import IMPORTERS
from nodewise.results.log_format import LogFormat

_THROUGHPUT = re.compile(r'"throughput": ([\d.]+)')
_CLOSE = 0.05


class MlperfLog(LogFormat):
    """An importer that also reads `train_samples` where they count batches, as some programs do."""

    def rows_of(self, text: str, path: Path) -> pd.DataFrame:
        """Return one row per epoch; see `LogFormat`.

        `examples` are multiplied by the batch if only so they agree with the logged throughputs.
        """
        table = super().rows_of(text, path)
        rates = [float(rate) for rate in _THROUGHPUT.findall(text)]
        if rates and {"examples", "global_batch", "epoch_time_s"} <= {*table}:
            each = np.median(rates) * table["epoch_time_s"] / table["examples"]
            if abs((each / table["global_batch"]).median() - 1) < _CLOSE:
                table["examples"] *= table["global_batch"]
                table.attrs["notes"].append(
                    "train_samples count batches, as the logged throughputs show"
                )
        return table


def _event(key: str, time: str = r"\d+") -> str:
    return rf'^.*:::MLLOG \{{.*"time_ms": {time}, .*"key": "{key}", '


def _span(name: str) -> str:
    """Return the pattern of an epoch or run; some programs time several epochs together."""
    start = _event(f"{name}_start", r"(?P<start_ms>[\d.]+)")
    stop = _event(f"{name}_stop", r"(?P<stop_ms>[\d.]+)")
    return rf'{start}(?:.*"epoch_count": (?P<epochs>\d+))?[\s\S]*?{stop}'


def _setting(key: str, field: str, value: str = r"[\d.]+") -> str:
    return rf'{_event(key)}"value": "?(?P<{field}>{value})\b'


IMPORTERS.add(
    "mlperf_log",
    MlperfLog(
        start=r"^.*:::MLLOG \{",
        settings=(
            _setting("submission_benchmark", "curve", r"\w+"),
            _setting("global_batch_size", "global_batch"),
            _setting("number_of_ranks", "devices"),
            _setting("number_of_nodes", "hosts"),
            _setting("train_samples", "examples"),
        ),
        refused={
            rf"{_event('run_stop')}[\s\S]*{_event('run_start')}": "another run begins after it"
        },
        result=_span("epoch"),
        warm_up=1,
        # a run has an unknown number of epochs, so that `examples` are left out
        whole=_span("run") + r'.*"status": "success"(?P<examples>)',
        example=':::MLLOG {…, "key": "epoch_stop", …}',
    ),
)

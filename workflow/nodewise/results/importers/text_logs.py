"""Import text logs, whose kinds are declared in log_formats.yaml."""

import re
from pathlib import Path

import numpy as np
import pandas as pd

from nodewise.results.importers import IMPORTERS
from nodewise.results.log_format import DECLARED, LogFormat

_RUN = r'"time_ms": (\d+), .*"key": "run_start"[\s\S]*?"time_ms": (\d+), .*"key": "run_stop"'
_CLOSE = 0.05
_INCLUDES = 1.5  # a throughput may leave out evaluations, which the time of an epoch includes
_WHOLE = 0.9  # share of a run from which its only epoch is the run
_MOST_EPOCHS = 999  # some programs call a count of examples `epoch_num`


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
        if samples := _numbers("train_samples", text):
            table["examples"] = samples[-1]
        run = re.search(_RUN, text)
        run_s = (float(run[2]) - float(run[1])) / 1e3 if run else np.inf
        if len(table) == 1 and table["epoch_time_s"].item() > _WHOLE * run_s:
            _, *end = re.split(r'"(?:epoch|block|run)_stop"', text, maxsplit=1)
            trained = _numbers("samples_count", text) or _numbers("train_samples", "".join(end))
            counts = [count for count in _numbers("epoch_num", text) if count > _MOST_EPOCHS]
            table["examples"] = max(trained or counts, default=np.nan)
            notes.append("the time is that of the whole run to its target quality")
        rates = _numbers("throughput", text)
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


def _numbers(key: str, text: str) -> list[float]:
    """Return the numbers that events have as the value of a key."""
    return [*map(float, re.findall(rf'"{key}"(?:, "value")?: "?(\d+(?:\.\d+)?)', text))]


_CHECKED = {"mlperf_log": MlperfLog}
for _name, _declared in DECLARED["formats"].items():
    IMPORTERS.add(_name, _CHECKED.get(_name, LogFormat)(**_declared))

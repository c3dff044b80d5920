"""Import logs of MLPerf training, which have lines `:::MLLOG {…}`.

Epochs are repeats. Without epochs, the whole run to the target quality is used, if it got there.
Times are from start to stop and include evaluations in between.

Source: https://github.com/mlcommons/logging
"""

import re

from nodewise.results.importers import IMPORTERS
from nodewise.results.log_format import LogFormat, pattern

_EVENT = r'^.*:::MLLOG \{{.*"time_ms": {time}, .*"key": "{key}", '


def _span(name: str, rest: str, **fields: str) -> re.Pattern[str]:
    """Return the pattern of an epoch or run; some programs time several epochs together."""
    start = _EVENT.format(time="<start_ms>", key=f"{name}_start")
    stop = _EVENT.format(time="<stop_ms>", key=f"{name}_stop")
    return pattern(rf'{start}(?:.*"epoch_count": <epochs>)?[\s\S]*?{stop}{rest}', **fields)


def _said(key: str, field: str, **fields: str) -> re.Pattern[str]:
    event = _EVENT.format(time=r"\d+", key=key)
    return pattern(rf'{event}"value": "?<{field}>\b', **fields)


_STOP, _START = (_EVENT.format(time=r"\d+", key=f"run_{end}") for end in ("stop", "start"))

IMPORTERS.add(
    "mlperf_log",
    LogFormat(
        start=pattern(r"^.*:::MLLOG \{"),
        settings=(
            _said("submission_benchmark", "curve", curve=r"\w+"),
            _said("global_batch_size", "global_batch"),
            _said("number_of_ranks", "devices"),
            _said("number_of_nodes", "hosts"),
            _said("train_samples", "examples"),
        ),
        refused={pattern(rf"{_STOP}[\s\S]*{_START}"): "another run begins after it"},
        result=_span("epoch", ""),
        # a run has an unknown number of epochs, so that `examples` are left out
        whole=_span("run", r'.*"status": "success"<examples>', examples=""),
        example=':::MLLOG {…, "key": "epoch_stop", …}',
    ),
)

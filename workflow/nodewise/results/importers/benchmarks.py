"""Import logs of benchmark programs, and of a callback of Keras. Each kind is one declaration.

Sources: https://github.com/tensorflow/benchmarks (tf_cnn_benchmarks), and
https://github.com/horovod/horovod/tree/master/examples (`*_synthetic_benchmark.py`).
"""

from nodewise.results.importers import IMPORTERS
from nodewise.results.log_format import LogFormat, pattern

_BATCHES = pattern(r"^Batch size:\s+<global_batch> global\s+<batch> per device")

IMPORTERS.add(
    "tf_cnn_benchmarks",
    LogFormat(
        start=_BATCHES,
        settings=(pattern(r"^Model:\s+<curve>", curve=r"\S+"), _BATCHES),
        result=pattern(r"^total images/sec: <samples_per_s>"),
        example="total images/sec: 1400.2",
        refused={pattern(r"^Mode:\s+forward-only"): "a run of inference only; no training"},
    ),
)
IMPORTERS.add(
    "horovod_benchmark",
    LogFormat(
        settings=(
            pattern(r"^Model: <curve>", curve=r"\S+"),
            pattern(r"^Batch size: <batch>"),
            pattern(r"^Number of \w+: <devices>"),
        ),
        result=pattern(r"^Iter #\d+: <samples_per_s_per_device> img/sec per \w+"),
        example="Iter #0: 145.0 img/sec per GPU",
    ),
)
IMPORTERS.add(
    "step_times",  # of the callback `data/templates/step_times.py`
    LogFormat(
        start=pattern(r'"nodewise-step-times-1"'),
        settings=(
            pattern(r'"model": "<curve>"', curve=r'[^"]+'),
            pattern(r'"devices": <devices>'),
            pattern(r'"batch_per_device": <batch>'),
        ),
        result=pattern(r"[\[,]\s*<step_s>(?=[,\s\]])", step_s=r"[\d.e-]+"),
        example='"step_s": [0.031]',
    ),
)

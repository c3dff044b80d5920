"""Import logs of benchmark programs. Each kind is one declaration.

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

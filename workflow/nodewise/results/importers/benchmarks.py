"""Import logs of benchmark programs, and of a callback of Keras. Each kind is one declaration.

Sources: https://github.com/tensorflow/benchmarks (tf_cnn_benchmarks), and
https://github.com/horovod/horovod/tree/master/examples (`*_synthetic_benchmark.py`).
"""

from nodewise.results.importers import IMPORTERS
from nodewise.results.log_format import LogFormat

_BATCHES = r"^Batch size:\s+(?P<global_batch>[\d.]+) global\s+(?P<batch>[\d.]+) per device"

IMPORTERS.add(
    "tf_cnn_benchmarks",
    LogFormat(
        start=rf"{_BATCHES}|^total images/sec: ",
        settings=(
            r"^Model:\s+(?P<curve>\S+)",
            _BATCHES,
            r"^Variables:\s+(?P<collective>parameter_server|distributed_replicated)\b",
        ),
        result=r"^total images/sec: (?P<samples_per_s>[\d.]+)",
        example="total images/sec: 1400.2",
        doubts={
            r"^Sync:\s+False": "asynchronous: gradients are late, so more examples may be needed",
            r"^Sync:\s+": "a run of several workers: if the total is no more than the rates of its "
            "steps, it is that of one worker; multiply it by their number",
        },
        # By its mode, an option, or the loss of its steps, which is not computed.
        refused=dict.fromkeys(
            (
                r"^Mode:\s+(?!.*train).*",
                r"--?(?:forward_only|eval)(?:=[Tt]rue|=1|\s|$)",
                r"^\d+\s+images/sec: .*\)\s+0\.0+\s*$",
            ),
            "a run of inference only; no training",
        ),
    ),
)
IMPORTERS.add(
    "horovod_benchmark",
    LogFormat(
        settings=(
            r"^Model: (?P<curve>\S+)",
            r"^Batch size: (?P<batch>\d+)",
            r"^Number of \w+: (?P<devices>\d+)",
        ),
        result=r"^Iter #\d+: (?P<samples_per_s_per_device>[\d.]+) img/sec per \w+",
        example="Iter #0: 145.0 img/sec per GPU",
    ),
)
IMPORTERS.add(
    "step_times",  # of the callback `data/templates/step_times.py`
    LogFormat(
        start=r'"nodewise-step-times-1"',
        settings=(
            r'"model": "(?P<curve>[^"]+)"',
            r'"devices": (?P<devices>\d+)',
            r'"batch_per_device": (?P<batch>[\d.]+)',
        ),
        result=r"[\[,]\s*(?P<step_s>[\d.e-]+)(?=[,\s\]])",
        example='"step_s": [0.031]',
    ),
)

"""Import the output of Horovod's synthetic benchmarks (TensorFlow, Keras and PyTorch).

Source: https://github.com/horovod/horovod/tree/master/examples, `*_synthetic_benchmark.py`.
"""

import re
from pathlib import Path
from typing import Any

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.results.importers import IMPORTERS, check_one_run, starts_with, text_of

_MODEL = re.compile(r"^Model: (\S+)", re.MULTILINE)
_BATCH = re.compile(r"^Batch size: (\d+)", re.MULTILINE)
_DEVICES = re.compile(r"^Number of \w+: (\d+)", re.MULTILINE)
_ROUND = re.compile(r"^Iter #\d+: (\d+(?:\.\d+)?) img/sec per \w+", re.MULTILINE)


class HorovodBenchmark:
    """Importer of these outputs.

    Each round prints the images per second of one device. Rounds are repeats.
    """

    def sniff(self, path: Path) -> bool:
        """Return whether the file has lines as these benchmarks print for each round."""
        return starts_with(path, _ROUND)

    def read(self, path: Path) -> pd.DataFrame:
        """Return one row per round.

        Raises:
            UserError: there are lines of another run, or none of a batch, of devices or of rounds.
        """
        text = text_of(path)
        check_one_run(path, text, (_BATCH, _DEVICES), _ROUND)
        model, batch, devices = (pattern.search(text) for pattern in (_MODEL, _BATCH, _DEVICES))
        rounds = _ROUND.findall(text)
        if batch is None or devices is None or not rounds:
            raise UserError(f"{path}: lacks the lines `Batch size`, `Number of GPUs` and `Iter #0`")
        nodes = float(devices[1])
        row: dict[str, Any] = {"nodes": nodes, "batch_per_worker": float(batch[1])}
        row |= {"curve": model[1]} if model else {}
        return pd.DataFrame([row | {"samples_per_s": float(rate) * nodes} for rate in rounds])


IMPORTERS.add("horovod_benchmark", HorovodBenchmark())

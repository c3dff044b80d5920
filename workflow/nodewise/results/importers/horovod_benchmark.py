"""Import the output of Horovod's synthetic benchmarks (TensorFlow, Keras and PyTorch).

Source: https://github.com/horovod/horovod/tree/master/examples, `*_synthetic_benchmark.py`.
"""

import re
from pathlib import Path
from typing import Any

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.results.importers import IMPORTERS, starts_with, text_of

_MODEL = re.compile(r"^(?:\[.*\])?Model: (\S+)", re.MULTILINE)
_BATCH = re.compile(r"^(?:\[.*\])?Batch size: (\d+)", re.MULTILINE)
_DEVICES = re.compile(r"^(?:\[.*\])?Number of \w+: (\d+)", re.MULTILINE)
_ROUND = re.compile(r"Iter #\d+: ([\d.]+) img/sec per \w+")


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
            UserError: the start of the output is missing, or there are no rounds.
        """
        text = text_of(path)
        model, batch, devices = (pattern.search(text) for pattern in (_MODEL, _BATCH, _DEVICES))
        rounds = _ROUND.findall(text)
        if batch is None or devices is None or not rounds:
            raise UserError(f"{path}: lacks the lines `Batch size`, `Number of GPUs` and `Iter #0`")
        nodes = int(devices[1])
        row: dict[str, Any] = {"nodes": nodes, "batch_per_worker": int(batch[1])}
        row |= {"curve": model[1]} if model else {}
        return pd.DataFrame([row | {"samples_per_s": float(rate) * nodes} for rate in rounds])


IMPORTERS.add("horovod_benchmark", HorovodBenchmark())

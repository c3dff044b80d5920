"""Import logs of tf_cnn_benchmarks, https://github.com/tensorflow/benchmarks."""

import re
from pathlib import Path

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.results.importers import IMPORTERS, starts_with, text_of

_MODEL = re.compile(r"^Model:\s+(\S+)", re.MULTILINE)
_BATCH = re.compile(r"^Batch size:\s+(\d+) global\s+(\d+)(?:\.0)? per device", re.MULTILINE)
_TOTAL = re.compile(r"^total images/sec: ([\d.]+)", re.MULTILINE)


class TfCnnBenchmarks:
    """Importer of these logs.

    A log has the model, the global batch, the batch per device, and the images per second of all
    devices. The number of devices follows from both batches.
    """

    def sniff(self, path: Path) -> bool:
        """Return whether the log has this program's line about batches."""
        return starts_with(path, _BATCH)

    def read(self, path: Path) -> pd.DataFrame:
        """Return one row for the whole run.

        Raises:
            UserError: the run was not completed.
        """
        text = text_of(path)
        model, batch, total = (pattern.search(text) for pattern in (_MODEL, _BATCH, _TOTAL))
        if batch is None or total is None:
            raise UserError(f"{path}: has no line `total images/sec`, so the run did not end")
        whole, each = int(batch[1]), int(batch[2])
        row = {"nodes": whole // each, "batch_per_worker": each, "samples_per_s": float(total[1])}
        return pd.DataFrame([row | ({"curve": model[1]} if model else {})])


IMPORTERS.add("tf_cnn_benchmarks", TfCnnBenchmarks())

"""Import logs of tf_cnn_benchmarks, https://github.com/tensorflow/benchmarks."""

import math
import re
from pathlib import Path

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.results.importers import IMPORTERS, check_one_run, line_number, starts_with, text_of

_MODEL = re.compile(r"^Model:\s+(\S+)", re.MULTILINE)
_BATCH = re.compile(
    r"^Batch size:\s+(\d{1,12}) global\s+(\d{1,12}(?:\.\d{1,20})?) per device", re.MULTILINE
)
_TOTAL = re.compile(r"^total images/sec: (\d+(?:\.\d+)?)", re.MULTILINE)


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
            UserError: the run was not completed, its batches give no number of devices, or another
                run follows.
        """
        text = text_of(path)
        check_one_run(path, text, (_BATCH,), _TOTAL)
        model, batch, total = (pattern.search(text) for pattern in (_MODEL, _BATCH, _TOTAL))
        if batch is None:
            raise UserError(f"{path}: lacks the lines `Batch size: 64 global` and `32 per device`")
        if total is None:
            raise UserError(f"{path}: has no line `total images/sec`, so the run did not end")
        whole, each = float(batch[1]), float(batch[2])
        nodes = round(whole / each) if each else 0
        if not nodes or not math.isclose(nodes * each, whole):
            number = line_number(text, batch.start())
            raise UserError(
                f"{path}: line {number}: a batch of {whole:g} with {each:g} per device is not "
                "that of a whole number of devices"
            )
        row = {"nodes": nodes, "batch_per_worker": each, "samples_per_s": float(total[1])}
        return pd.DataFrame([row | ({"curve": model[1]} if model else {})])


IMPORTERS.add("tf_cnn_benchmarks", TfCnnBenchmarks())

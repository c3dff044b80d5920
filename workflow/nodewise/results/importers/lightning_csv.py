"""Import `metrics.csv` of PyTorch Lightning's CSVLogger, with values of its ThroughputMonitor.

Source: https://lightning.ai/docs/pytorch/stable/api/lightning.pytorch.callbacks.ThroughputMonitor.html
"""

from pathlib import Path

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.results.csv_file import read_header, read_table
from nodewise.results.importers import IMPORTERS

_GLOBAL = ("train|global/samples_per_sec", "global/samples_per_sec")
_STEPS = ("train|device/batches_per_sec", "device/batches_per_sec")


class LightningCsv:
    """Importer of `metrics.csv`. Rows with a rate of examples, or else of batches, are repeats."""

    def sniff(self, path: Path) -> bool:
        """Return whether the first line has the columns that the logger always writes."""
        return {"epoch", "step"} <= read_header(path)

    def read(self, path: Path) -> pd.DataFrame:
        """Return one row per value.

        Raises:
            UserError: there is no rate, or it is not a number.
        """
        header, rows = read_table(path)
        for names, column in ((_GLOBAL, "samples_per_s"), (_STEPS, "steps_per_s")):
            for name in names:
                if name in header:
                    at = header.index(name)
                    values = [_rate(path, number, row[at]) for number, row in rows if row[at]]
                    if values:
                        return pd.DataFrame({column: values})
        raise UserError(
            f"{path}: has no column {_GLOBAL[0]} or {_STEPS[0]}: add Lightning's ThroughputMonitor"
        )


IMPORTERS.add("lightning_csv", LightningCsv())


def _rate(path: Path, number: int, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UserError(f"{path}: row {number}: {text[:40]!r} is not a number") from None

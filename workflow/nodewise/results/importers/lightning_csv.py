"""Import `metrics.csv` of PyTorch Lightning's CSVLogger, with values of its ThroughputMonitor.

Source: https://lightning.ai/docs/pytorch/stable/api/lightning.pytorch.callbacks.ThroughputMonitor.html
"""

from pathlib import Path

import pandas as pd

from nodewise.results.csv_file import Number, read_header, read_numbers, read_table
from nodewise.results.importers import IMPORTERS
from nodewise.results.training_rates import find_training_rate, rate_note

_RATE = Number(1e-9, 1e12)


class LightningCsv:
    """Importer of `metrics.csv`. Each row with the rate of training is a repeat."""

    def sniff(self, path: Path) -> bool:
        """Return whether the first line has the columns that the logger always writes."""
        return {"epoch", "step"} <= read_header(path)

    def read(self, path: Path) -> pd.DataFrame:
        """Return one row per value: examples per second if there are any, else steps per second.

        Raises:
            UserError: there is no rate of training, or several, or it is not a positive number.
        """
        header, rows = read_table(path)
        logged = {name for _, row in rows for name, text in zip(header, row, strict=False) if text}
        name, clock = find_training_rate(path, logged)
        at = header.index(name)
        rates = [
            read_numbers(f"{path}: row {number}", {name: row[at]}, {name: _RATE})[name]
            for number, row in rows
            if row[at]
        ]
        table = pd.DataFrame({clock: rates})
        table.attrs["notes"] = [rate_note(name)]
        return table


IMPORTERS.add("lightning_csv", LightningCsv())

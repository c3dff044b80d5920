"""Import `metrics.csv` of PyTorch Lightning's CSVLogger, or a chart of Weights & Biases as CSV.

Source of the names of rates:
https://lightning.ai/docs/pytorch/stable/api/lightning.pytorch.callbacks.ThroughputMonitor.html
"""

from pathlib import Path

import pandas as pd

from nodewise.results.csv_file import Number, read_header, read_records, read_table
from nodewise.results.importers import IMPORTERS
from nodewise.results.training_rates import find_training_rate, rate_note

_RATE = Number(1e-9, 1e12)


class LightningCsv:
    """Importer of `metrics.csv`. Each row with the rate of training is a repeat."""

    def sniff(self, path: Path) -> bool:
        """Return whether the first line has the columns that these programs always write."""
        header = read_header(path)
        return {"epoch", "step"} <= header or "Step" in header

    def read(self, path: Path) -> pd.DataFrame:
        """Return one row per value: examples per second if there are any, else steps per second.

        Raises:
            UserError: there is no rate of training, or several, or it is not a positive number.
        """
        header, _ = read_table(path)
        logged = read_records(path, (), header, {})
        names = {name for row in logged for name in row} - {"location"}
        name, clock = find_training_rate(path, names)
        rates = [row[name] for row in read_records(path, (), (), {name: _RATE}) if name in row]
        table = pd.DataFrame({clock: rates})
        table.attrs["notes"] = [rate_note(name)]
        return table


IMPORTERS.add("lightning_csv", LightningCsv())

"""Import `metrics.csv` of PyTorch Lightning's CSVLogger, or a chart of Weights & Biases as CSV.

Each row with the rate of training is a repeat. Source of the names of rates:
https://lightning.ai/docs/pytorch/stable/api/lightning.pytorch.callbacks.ThroughputMonitor.html
"""

from pathlib import Path

import pandas as pd

from nodewise.results.csv_file import read_header, read_table
from nodewise.results.importers import IMPORTERS
from nodewise.results.training_rates import training_rates


class LightningCsv:
    """Importer of CSV files with a column of each logged value."""

    def sniff(self, path: Path) -> bool:
        """Return whether it is CSV with the columns that these programs always write."""
        header = read_header(path) if path.suffix == ".csv" else set()
        return {"epoch", "step"} <= header or "Step" in header

    def read(self, path: Path) -> pd.DataFrame:
        """Return one row per value of the rate of training; see `training_rates`."""
        header, lines = read_table(path)
        columns = {
            name: [values[at] for _, values in lines if values[at]]
            for at, name in enumerate(header)
        }
        return training_rates(path, {name: texts for name, texts in columns.items() if texts})


IMPORTERS.add("lightning_csv", LightningCsv())
